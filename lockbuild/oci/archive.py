"""Images as one tar that engines and tools read: a docker-archive and an OCI image layout at once.

A classic Docker store reads ``manifest.json`` (``docker save``'s format); a containerd store, and tools such
as skopeo, see ``oci-layout`` and read ``index.json`` (OCI image specification, image-layout.md), and so keep
our manifests and their digests. The blobs are the same files for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockbuild.model.environment import Environment
from lockbuild.oci.image import Image, canonical_json, descriptor
from lockbuild.oci.index import ImageEntry, ImageIndex
from lockbuild.oci.layers import EncodedLayer, layer_chunks
from lockbuild.oci.layout import (
    INDEX_TYPE,
    LayoutFile,
    Write,
    blob_data,
    blob_file,
    blob_name,
    data_file,
    layout_size,
    write_layout,
)
from lockbuild.store import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

Chunks = Callable[[EncodedLayer], Iterable["Buffer"]]


@dataclass(frozen=True, slots=True)
class ImageArchive:
    """What stands in an archive.

    ``images`` for different platforms; ``index`` over them, where there are several or it says something of them.
    ``tags`` (``name:tag``) are what each image is called in a classic Docker store, ``tag`` what the whole is called
    elsewhere. ``chunks`` gives a layer's bytes; ``skip`` first layers are left out, for an engine that has them.
    """

    images: Sequence[Image]
    tags: Sequence[str]
    tag: str
    chunks: Chunks
    index: ImageIndex | None = None
    skip: int = 0

    def size(self) -> int:
        """How many bytes `write` gives."""
        return layout_size(self._index_json(), self._blobs(), beside=[self._manifest_json()])

    def write(self, write: Write) -> None:
        """Give the archive to ``write``, piece by piece; IntegrityError where a layer's bytes are not those of its
        digest."""
        write_layout(self._index_json(), self._blobs(), write, beside=[self._manifest_json()])

    def _index_json(self) -> bytes:
        if self.index is not None:
            top = descriptor(INDEX_TYPE, self.index.digest, len(self.index.data))
        else:
            top = ImageEntry.of(self.images[0]).descriptor()
        name, _, tag = self.tag.rpartition(":")
        top["annotations"] = {
            "io.containerd.image.name": f"{_familiar(name)}:{tag}",
            "org.opencontainers.image.ref.name": tag,
        }
        return canonical_json({"manifests": [top], "mediaType": INDEX_TYPE, "schemaVersion": 2})

    def _manifest_json(self) -> LayoutFile:
        images: list[dict[str, Any]] = [
            {
                "Config": blob_name(image.config_digest),
                "Layers": [blob_name(layer.digest) for layer in image.layers],
                "RepoTags": [tag],
            }
            for image, tag in zip(self.images, self.tags, strict=True)
        ]
        return data_file("manifest.json", canonical_json(images))

    def _blobs(self) -> list[LayoutFile]:
        blobs = [] if self.index is None else [blob_data(self.index.data)]
        for image in self.images:
            blobs += [blob_data(image.config), blob_data(image.manifest)]
        layers = {layer.digest: layer for image in self.images for layer in image.layers[self.skip :]}
        return blobs + [
            blob_file(layer.digest, layer.size, lambda layer=layer: self.chunks(layer))  # type: ignore[misc]
            for layer in layers.values()
        ]


def chunks_of(store: Store | None, environments: Iterable[Environment]) -> Chunks:
    """The bytes of any layer of ``environments``: out of ``store`` where it is compressed, else from the tree."""
    trees = {tree.digest: tree for environment in environments for tree in environment.trees}

    def chunks(layer: EncodedLayer) -> Iterable[Buffer]:
        tree = trees[layer.diff_id]
        return layer_chunks(store, layer, tree.root, name=tree.name)

    return chunks


def _familiar(name: str) -> str:
    """The whole name for the short one that Docker knows: ``docker.io`` stands before what names no registry."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if rest else f"docker.io/library/{name}"
