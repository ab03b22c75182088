"""``lockbuild image push`` and ``pull``: the images that a lock makes, to registries and from there.

What is pushed is what the lock makes, layers that the registry has left out. What is pulled is taken only where it is
the image that the lock records: then its layers are the trees that the lock names, and each must unpack to its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockbuild.errors import InconclusiveError, IntegrityError, ResolveError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.image import Descriptor, ImageManifest, read_config, read_index, read_manifest
from lockbuild.model.lock import LockedEnvironment
from lockbuild.model.platform import Platform
from lockbuild.model.reference import Reference
from lockbuild.oci.encoders import Compression
from lockbuild.oci.image import MANIFEST_TYPE
from lockbuild.oci.index import ImageEntry, ImageIndex, compute_index
from lockbuild.oci.layers import EncodedLayer, decode, layer_chunks
from lockbuild.oci.layout import INDEX_TYPE
from lockbuild.transport.transfers import Transfers
from lockbuild.workflow.images import MadeImage, current_lock, make_images
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lockbuild.transport.registry.registries import Manifest

_AT_ONCE = 3
"""Layers on their way at once."""
_LARGEST_CONFIG = 4 << 20


@dataclass(frozen=True, slots=True)
class PushedImage:
    """``reference`` is pinned to what was pushed: to ``index`` where one stands over the ``images``. ``layers`` and
    ``size`` (bytes) are what had to be sent of them."""

    reference: Reference
    tag: str
    images: tuple[MadeImage, ...]
    index: ImageIndex | None
    layers: int
    size: int


@dataclass(frozen=True, slots=True)
class PulledImage:
    """``reference`` is pinned to what was read; ``made`` names the trees that were not in the store."""

    reference: Reference
    platform: Platform
    image: LockedEnvironment
    made: tuple[str, ...]
    unchanged: int


@dataclass(slots=True)
class _Sent:
    layers: int = 0
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def push_image(
    workspace: Workspace,
    project: Project,
    platforms: Sequence[Platform],
    compression: Compression,
    reference: Reference,
    *,
    annotations: Mapping[str, str] | None = None,
) -> PushedImage:
    """Push the images for ``platforms`` and let the tag of ``reference`` (``latest`` where it has none) be theirs.

    With several platforms or with ``annotations`` an index stands over them. As `make_images`; TransferError where
    the registry does not take it.
    """
    if reference.digest is not None:
        raise UsageError(
            "the digest of what is pushed follows from the lock",
            on=str(reference),
            hint=f"write {reference.name}:TAG",
        )
    made = make_images(workspace, project, platforms, compression)
    images = [each.image for each in made]
    index = None
    if len(images) > 1 or annotations:
        index = compute_index([ImageEntry.of(image) for image in images], annotations)
    sent = _Sent()
    for each in made:
        _push_one(workspace, reference, each, sent)
    registries = workspace.registries
    if index is None:
        digest = registries.push_manifest(reference.at(reference.target), images[0].manifest, MANIFEST_TYPE)
    else:
        digest = registries.push_manifest(reference.at(reference.target), index.data, INDEX_TYPE)
    return PushedImage(
        Reference(reference.registry, reference.repository, digest=digest),
        reference.target,
        tuple(made),
        index,
        sent.layers,
        sent.size,
    )


def _push_one(workspace: Workspace, reference: Reference, made: MadeImage, sent: _Sent) -> None:
    """One image with its layers, by its digest alone."""
    registries, image = workspace.registries, made.image
    where = reference.at(image.manifest_digest)
    if registries.has_manifest(where):
        return
    trees = {tree.digest: tree for tree in made.environment.trees}
    transfers = Transfers()
    mount = _own_repositories(workspace, reference)

    def push(layer: EncodedLayer) -> None:
        tree = trees[layer.diff_id]

        def chunks() -> Iterable[Buffer]:
            for chunk in layer_chunks(workspace.store, layer, tree.root, name=tree.name):
                transfers.check()
                yield chunk

        if registries.push_blob(
            reference, layer.digest, layer.size, chunks, mount=mount, label=f"push {tree.name}"
        ):
            with sent.lock:
                sent.layers += 1
                sent.size += layer.size

    unique = {layer.digest: layer for layer in image.layers}
    transfers.each(unique.values(), push, connections=_AT_ONCE, name="push")
    registries.push_blob(reference, image.config_digest, len(image.config), lambda: [image.config])
    registries.push_manifest(where, image.manifest, MANIFEST_TYPE)


def _own_repositories(workspace: Workspace, reference: Reference) -> list[str]:
    """Repositories of the same registry that may have the layers: those of the caches."""
    cache = workspace.config.cache
    named = [Reference.parse(text) for text in (*cache.read, *([cache.write] if cache.write else []))]
    return list(dict.fromkeys(one.repository for one in named if one.registry == reference.registry))


def pull_image(
    workspace: Workspace, project: Project, platform: Platform, reference: Reference
) -> PulledImage:
    """Make the store's trees of the layers of the image that ``reference`` names, for ``platform``.

    IntegrityError where it is not the image that the lock records; InconclusiveError where the lock records none;
    TransferError where the registry does not give it.
    """
    lock = current_lock(project, [platform])
    recorded = lock.environments.get(str(platform))
    if recorded is None:
        raise InconclusiveError(
            f"the lock does not record the image for {platform}, so that none could be known to be right",
            on=str(project.paths.lock),
            hint=f"run `lockbuild lock --materialise --platform {platform}` where it can be made",
        )
    workspace.hold_store()
    found = workspace.registries.manifest(reference)
    manifest = _manifest_for(workspace, reference, found, platform)
    if manifest.config.digest != recorded.image:
        raise IntegrityError(
            f"it is the image {manifest.config.digest}, but the lock records {recorded.image} for {platform}",
            on=str(reference),
            hint="name the image that was pushed from this lock; a copy must keep the image's configuration "
            "(`skopeo copy` does, without --format)",
        )
    config = read_config(
        workspace.registries.blob_bytes(reference, recorded.image, limit=_LARGEST_CONFIG),
        manifest,
        on=str(reference),
    )
    names = {
        tree.digest: tree.name
        for tree in lock.trees
        if tree.digest is not None and tree.platform in (platform, "any")
    }
    layers = dict(zip(config.diff_ids, manifest.layers, strict=True))
    lacking = {diff_id: layer for diff_id, layer in layers.items() if not workspace.store.has_tree(diff_id)}
    transfers = Transfers()

    def fetch(item: tuple[Digest, Descriptor]) -> None:
        diff_id, layer = item
        name = names.get(diff_id, diff_id.short)
        chunks = workspace.registries.chunks(reference, layer.digest, layer.size, transfers=transfers)
        decode(
            workspace.store,
            chunks,
            diff_id,
            name=f"{reference.name} {name}",
            report=workspace.report,
            size=layer.size,
        )

    transfers.each(lacking.items(), fetch, connections=_AT_ONCE, name="pull")
    return PulledImage(
        Reference(reference.registry, reference.repository, digest=found.digest),
        platform,
        recorded,
        tuple(names.get(diff_id, str(diff_id)) for diff_id in lacking),
        len(layers) - len(lacking),
    )


def _manifest_for(
    workspace: Workspace, reference: Reference, found: Manifest, platform: Platform
) -> ImageManifest:
    """The manifest of the image, or of the one for ``platform`` in an index."""
    if "manifests" in found.value:
        entry = read_index(found.body, on=str(reference)).entry(platform)
        if entry is None:
            raise ResolveError(f"the image is not there for {platform}", on=str(reference))
        found = workspace.registries.manifest(reference.at(entry.digest))
    return read_manifest(found.body, found.media_type, on=str(reference))
