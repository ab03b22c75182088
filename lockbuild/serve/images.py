"""The images of the known locks' environments, computed from the lock and the trees in the store.

A lock names its trees and records which image they make; the image's own files are in no store, as they follow from
that. An image that comes out otherwise than recorded is not served.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lockbuild.environment.compose import compose, in_environment
from lockbuild.environment.materialise import recipe
from lockbuild.errors import LockbuildError
from lockbuild.events import Note, Reporter
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedTree
from lockbuild.model.platform import Platform
from lockbuild.oci.image import (
    CONFIG_TYPE,
    MANIFEST_TYPE,
    Image,
    canonical_json,
    compute,
    descriptor,
    image_labels,
)
from lockbuild.oci.layers import EncodedLayer, encoded
from lockbuild.serve.library import KnownLock
from lockbuild.store import Store

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_Compressed = Literal["gzip", "zstd"]
_COMPRESSIONS: tuple[_Compressed, ...] = ("gzip", "zstd")


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest, an index or a configuration: its bytes and what they are."""

    data: bytes
    media_type: str

    @property
    def digest(self) -> Digest:
        """Its digest."""
        return Digest.of(self.data)


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """What stands under one name. ``trees`` are layers that are not compressed; ``blobs`` those that are, and stand in
    the store."""

    tags: Mapping[str, Document]
    manifests: Mapping[Digest, Document]
    configs: Mapping[Digest, Document]
    trees: frozenset[Digest]
    blobs: frozenset[Digest]


@dataclass(frozen=True, slots=True)
class _Found:
    """The trees of an environment, by name and digest: what an image is made again for."""

    platform: Platform
    trees: tuple[tuple[LockedTree, Digest], ...]
    encoded: Mapping[_Compressed, tuple[EncodedLayer, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        return (
            self.platform,
            tuple(digest for _, digest in self.trees),
            tuple(self.encoded),
        )


class Images:
    """Repositories by the name of their lock, made when they are asked for and the store has changed. Thread-safe."""

    def __init__(self, store: Store, report: Reporter) -> None:
        self._store = store
        self._report = report
        self._lock = threading.Lock()
        self._made: dict[str, tuple[object, ServedRepository | None]] = {}

    def repository(self, known: KnownLock) -> ServedRepository | None:
        """What there is of the lock's images; None where the store lacks a layer of every one."""
        found = [each for platform in _platforms(known.lock) if (each := self._find(known.lock, platform))]
        key = (known.lock.manifest.digest, *(each.key for each in found))
        with self._lock:
            if known.name not in self._made or self._made[known.name][0] != key:
                self._made[known.name] = key, self._make(known, found)
            return self._made[known.name][1]

    def _find(self, lock: Lock, platform: Platform) -> _Found | None:
        wanted = in_environment(tree for tree in lock.trees if tree.platform in (platform, "any"))
        trees = []
        for tree in wanted:
            digest = tree.digest or self._store.recall(recipe(tree, lock.sources_of(tree)))
            if digest is None or not self._store.has_tree(digest):
                return None
            trees.append((tree, digest))
        if not trees:
            return None
        variants: dict[_Compressed, tuple[EncodedLayer, ...]] = {}
        for compression in _COMPRESSIONS:
            known = [encoded(self._store, digest, compression) for _, digest in trees]
            whole = tuple(layer for layer in known if layer is not None)
            if len(whole) == len(trees):
                variants[compression] = whole
        return _Found(platform, tuple(trees), variants)

    def _make(self, known: KnownLock, found: Sequence[_Found]) -> ServedRepository | None:
        tags: dict[str, Document] = {}
        manifests: dict[Digest, Document] = {}
        configs: dict[Digest, Document] = {}
        trees: set[Digest] = set()
        blobs: set[Digest] = set()
        listed = []
        for each in found:
            image = self._image(known, each, None)
            if image is None:
                continue
            tag = str(each.platform).replace("/", "-")
            tags[tag] = Document(image.manifest, MANIFEST_TYPE)
            configs[image.config_digest] = Document(image.config, CONFIG_TYPE)
            trees.update(image.diff_ids)
            for compression in each.encoded:
                compressed = self._image(known, each, compression)
                if compressed is not None:
                    tags[f"{tag}-{compression}"] = Document(compressed.manifest, MANIFEST_TYPE)
                    blobs.update(layer.digest for layer in compressed.layers)
            listed.append(
                {
                    **descriptor(MANIFEST_TYPE, image.manifest_digest, len(image.manifest)),
                    "platform": {"architecture": each.platform.architecture, "os": each.platform.os},
                }
            )
        if not listed:
            return None
        index = {"manifests": listed, "mediaType": INDEX_TYPE, "schemaVersion": 2}
        tags["latest"] = Document(canonical_json(index), INDEX_TYPE)
        manifests.update((document.digest, document) for document in tags.values())
        return ServedRepository(tags, manifests, configs, frozenset(trees), frozenset(blobs))

    def _image(self, known: KnownLock, found: _Found, compression: _Compressed | None) -> Image | None:
        """The image, with layers compressed so, where it is the one that the lock records, if it records one."""
        lock, platform = known.lock, found.platform
        title = str(lock.manifest.inputs.get("name", known.name))
        labels = image_labels(title, lock.environment_digest(platform))
        try:
            environment = compose(self._store, platform, found.trees)
            image = compute(
                environment, labels=labels, layers=None if compression is None else found.encoded[compression]
            )
        except LockbuildError as error:
            self._complain(known, platform, str(error))
            return None
        recorded = lock.environments.get(str(platform))
        expected = None if recorded is None else recorded.manifest
        if recorded is not None and compression is not None:
            layers = recorded.layers.get(compression)
            expected = None if layers is None else layers.manifest
        if expected not in (None, image.manifest_digest):
            self._complain(
                known, platform, f"it comes out as {image.manifest_digest}; the lock records {expected}"
            )
            return None
        return image

    def _complain(self, known: KnownLock, platform: Platform, why: str) -> None:
        self._report(Note(f"the image of {known.name} for {platform} is not served: {why}", "warning"))


def _platforms(lock: Lock) -> list[Platform]:
    return sorted({tree.platform for tree in lock.trees if tree.platform != "any"}, key=str)
