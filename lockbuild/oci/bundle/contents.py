"""What a bundle holds, and the bytes of everything in it that is not a tree or a source.

A bundle is an OCI image layout (image-layout.md, 1.1) in one canonical tar. Beside the image of each platform its
``index.json`` names one artefact (manifest.md, "Guidelines for Artifact Usage"), whose configuration is `Contents`:
the lock, and every tree, source and document that is there. Format: ``docs/bundles.md``.

Everything follows from the lock and from the contents: whoever reads a bundle computes it again and accepts no other
bytes, so that nothing in it is believed that the lock does not name, nor anything that a person would read there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import FailFast, Field

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.oci.encoders import MEDIA_TYPES, Compression
from lockbuild.oci.image import MANIFEST_TYPE, canonical_json, descriptor
from lockbuild.oci.layout import INDEX_TYPE, blob_name

SCHEMA = 1
"""The schema number of contents that this version writes; it refuses any other."""
BUNDLE_TYPE = "application/vnd.lockbuild.bundle.v1+json"
LOCK_TYPE = "application/vnd.lockbuild.lock.v1+toml"
BLOB_TYPE = "application/octet-stream"
IMAGE_TAG = "environment"
"""By this name tools find the image in the layout (``org.opencontainers.image.ref.name``)."""
BUNDLE_TAG = "bundle"
"""And by this one the artefact."""

Purpose = Literal["offline-sync", "offline-lock"]
Size = Annotated[int, Field(ge=0, le=1 << 50)]
Label = Annotated[str, Field(min_length=1, max_length=1024)]


class Blob(FileModel):
    """A file of the bundle: its digest, and its size in bytes."""

    digest: Digest
    size: Size


class BundledTree(FileModel):
    """A tree. Without a ``layer`` the bundle leaves it out, because the base that it goes on from has it."""

    names: Annotated[list[Label], Field(min_length=1)]
    """The ids of the lock's trees that it is, sorted."""
    digest: Digest
    """The digest of its canonical tar."""
    size: Size
    """The bytes of that tar."""
    layer: Blob | None = None


class BundledSource(FileModel):
    """The file of a source, under its SHA-256."""

    purls: Annotated[list[Label], Field(min_length=1)]
    """The package URLs of the lock's sources that it is, sorted."""
    digest: Digest
    size: Size
    held: bool = True
    """False where the bundle leaves it out, because the base has it."""


class BundledImage(FileModel):
    """The image of a platform's environment: the digests of its configuration and of its manifest, which names the
    layers of the bundle."""

    platform: Platform
    config: Blob
    manifest: Blob


class Document(FileModel):
    """What a resolver reads: an index, a page, a file of a repository, under a name without a host."""

    name: Label
    digest: Digest
    size: Size
    held: bool = True


class Contents(FileModel):
    """What a bundle is for and what it holds. Lists are sorted: trees and sources by digest, documents by name."""

    schema_: Literal[1] = 1
    for_: Purpose
    platforms: Annotated[list[Platform], Field(min_length=1)]
    compression: Compression
    """Of the layers."""
    encoder: Label
    """What compressed them."""
    lock: Blob
    since: Digest | None = None
    """The digest of the lock that it goes on from: what that needs is left out."""
    trees: Annotated[list[BundledTree], FailFast()] = []
    sources: Annotated[list[BundledSource], FailFast()] = []
    images: Annotated[list[BundledImage], FailFast()] = []
    signatures: Annotated[list[Blob], FailFast()] = []
    """The signed indexes (InRelease) of the lock's suites."""
    documents: Annotated[list[Document], FailFast()] = []

    def data(self) -> bytes:
        """The canonical bytes."""
        value = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        return canonical_json({"schema": self.schema_, **value})

    def held(self) -> Iterator[tuple[str, Blob]]:
        """Every blob that it has beside the lock, in the order in which they stand, each once: its media type too."""
        seen: set[Digest] = set()
        layers = [tree.layer for tree in self.trees if tree.layer is not None]
        for kind, blobs in (
            (BLOB_TYPE, self.signatures),
            (BLOB_TYPE, [Blob(digest=d.digest, size=d.size) for d in self.documents if d.held]),
            (BLOB_TYPE, [Blob(digest=s.digest, size=s.size) for s in self.sources if s.held]),
            (MEDIA_TYPES[self.compression], layers),
        ):
            for blob in sorted(blobs, key=lambda blob: blob.digest):
                if blob.digest not in seen:
                    seen.add(blob.digest)
                    yield kind, blob


def manifest(contents: Contents) -> bytes:
    """The artefact's manifest: tools that copy it copy every blob."""
    data = contents.data()
    return canonical_json(
        {
            "artifactType": BUNDLE_TYPE,
            "config": descriptor(BUNDLE_TYPE, Digest.of(data), len(data)),
            "layers": [
                {
                    **descriptor(LOCK_TYPE, contents.lock.digest, contents.lock.size),
                    "annotations": {"org.opencontainers.image.title": "lockbuild.lock"},
                },
                *(descriptor(kind, blob.digest, blob.size) for kind, blob in contents.held()),
            ],
            "mediaType": MANIFEST_TYPE,
            "schemaVersion": 2,
        }
    )


def image_index(contents: Contents) -> bytes | None:
    """The index over the images of several platforms; None where there is one or none."""
    if len(contents.images) < 2:
        return None
    return canonical_json(
        {
            "manifests": [_image(image) for image in contents.images],
            "mediaType": INDEX_TYPE,
            "schemaVersion": 2,
        }
    )


def reference(lock: Lock, image: BundledImage) -> str:
    """Name and tag under which an engine that loads it knows the image."""
    from lockbuild.oci.load import repository_name

    return (
        f"lockbuild/{repository_name(str(lock.manifest.inputs.get('name', '')))}:{image.config.digest.short}"
    )


def layout_index(contents: Contents, lock: Lock) -> bytes:
    """``index.json``."""
    artefact = manifest(contents)
    index = image_index(contents)
    named: list[dict[str, Any]] = []
    if index is not None:
        named.append(descriptor(INDEX_TYPE, Digest.of(index), len(index)))
    elif contents.images:
        named.append(_image(contents.images[0]))
    for item in named:
        item["annotations"] = {"org.opencontainers.image.ref.name": IMAGE_TAG}
        if index is None:
            name = f"docker.io/{reference(lock, contents.images[0])}"
            item["annotations"]["io.containerd.image.name"] = name
    named.append(
        {
            **descriptor(MANIFEST_TYPE, Digest.of(artefact), len(artefact)),
            "annotations": {"org.opencontainers.image.ref.name": BUNDLE_TAG},
            "artifactType": BUNDLE_TYPE,
        }
    )
    return canonical_json({"manifests": named, "mediaType": INDEX_TYPE, "schemaVersion": 2})


def docker_manifest(contents: Contents, lock: Lock, configs: Mapping[Platform, bytes]) -> bytes | None:
    """``manifest.json``, as ``docker save`` writes it; None where there is no image."""
    if not contents.images:
        return None
    layers = {tree.digest: tree.layer for tree in contents.trees}
    images = []
    for image in contents.images:
        found = [layers[diff_id] for diff_id in diff_ids(configs[image.platform])]
        images.append(
            {
                "Config": blob_name(image.config.digest),
                "Layers": [blob_name(layer.digest) for layer in found if layer is not None],
                "RepoTags": [reference(lock, image)],
            }
        )
    return canonical_json(images)


def image_manifest(contents: Contents, config: bytes) -> bytes:
    """The manifest of the image with that configuration, over the layers of the bundle; KeyError where it lacks one."""
    from lockbuild.oci.image import CONFIG_TYPE

    layers = {tree.digest: tree.layer for tree in contents.trees if tree.layer is not None}
    return canonical_json(
        {
            "config": descriptor(CONFIG_TYPE, Digest.of(config), len(config)),
            "layers": [
                descriptor(MEDIA_TYPES[contents.compression], layers[diff_id].digest, layers[diff_id].size)
                for diff_id in diff_ids(config)
            ],
            "mediaType": MANIFEST_TYPE,
            "schemaVersion": 2,
        }
    )


def diff_ids(config: bytes) -> list[Digest]:
    """The layers' diff IDs in an image's configuration; ValueError, KeyError or TypeError where it has none."""
    import json

    return [Digest.parse(text) for text in json.loads(config)["rootfs"]["diff_ids"]]


def _image(image: BundledImage) -> dict[str, Any]:
    return {
        **descriptor(MANIFEST_TYPE, image.manifest.digest, image.manifest.size),
        "platform": {"architecture": image.platform.architecture, "os": image.platform.os},
    }
