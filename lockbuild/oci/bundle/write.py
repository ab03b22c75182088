"""The files of a bundle as `layout` writes them: the same contents give the same bytes, whoever writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.oci.bundle import contents as bundle
from lockbuild.oci.bundle.contents import Contents
from lockbuild.oci.bundle.read import INDEX_TEXT
from lockbuild.oci.bundle.text import index_text
from lockbuild.oci.layout import (
    LayoutFile,
    Write,
    blob_data,
    blob_file,
    data_file,
    layout_size,
    write_layout,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """A bundle that is to be written."""

    index: bytes
    beside: tuple[LayoutFile, ...]
    blobs: tuple[LayoutFile, ...]

    @property
    def size(self) -> int:
        """The bytes of the whole tar."""
        return layout_size(self.index, self.blobs, beside=self.beside)

    def write(self, write: Write) -> None:
        """Give the tar to ``write``, piece by piece."""
        write_layout(self.index, self.blobs, write, beside=self.beside)


def bundle_files(
    contents: Contents,
    lock: Lock,
    lock_text: bytes,
    configs: Mapping[Platform, bytes],
    chunks: Callable[[Digest], Iterable[Buffer]],
) -> BundleFiles:
    """The files, in their order. ``configs`` has the configurations of the images; ``chunks`` gives the bytes of a
    blob that is held, verified."""
    beside = [data_file(INDEX_TEXT, index_text(contents, lock).encode())]
    docker = bundle.docker_manifest(contents, lock, configs)
    if docker is not None:
        beside.append(data_file("manifest.json", docker))
    blobs = [blob_data(bundle.manifest(contents)), blob_data(contents.data()), blob_data(lock_text)]
    for image in contents.images:
        blobs.append(blob_data(configs[image.platform]))
        blobs.append(blob_data(bundle.image_manifest(contents, configs[image.platform])))
    index = bundle.image_index(contents)
    if index is not None:
        blobs.append(blob_data(index))
    for _, held in contents.held():
        blobs.append(blob_file(held.digest, held.size, lambda digest=held.digest: chunks(digest)))  # type: ignore[misc]
    return BundleFiles(bundle.layout_index(contents, lock), tuple(beside), tuple(blobs))
