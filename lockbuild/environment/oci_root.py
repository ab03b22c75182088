"""A base root made from an image: its layers as one tree, with what a sandbox needs beside that.

The image's manifest is a source like its layers, so what they are and in which order they come is bound by the lock.
Each layer's bytes are bound twice: as they came by the manifest, unpacked by the configuration.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.amounts import count
from lockbuild.archive.changeset import ChangesetWriter, apply_layer
from lockbuild.archive.extract import decompressed, reading
from lockbuild.environment.image_needs import settle
from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Finished, Note, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.model.image import ImageConfig, ImageManifest, read_config, read_manifest
from lockbuild.model.lock import Source
from lockbuild.model.platform import Platform

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STEP = 4 << 20


@dataclass(frozen=True, slots=True)
class _Image:
    """``name`` is what messages call it; ``files`` has where its layers' bytes are."""

    name: str
    manifest: ImageManifest
    config: ImageConfig
    files: dict[Digest, Path]


def oci_root(
    sources: Sequence[Source],
    files: Sequence[Path],
    root: Path,
    *,
    platform: Platform,
    packages: Digest | None,
    report: Reporter,
) -> None:
    """Make the root file system of the image among ``sources`` in the empty directory ``root``, with the Debian
    packages among them on top; ``files`` has the verified file of each source.

    ``packages`` is the digest of the image's own list of packages where others were chosen to go with them.
    IntegrityError for a layer that is broken, unsafe or not the one that the configuration says, and for another
    list; ResolveError for an image that cannot be a base, and for packages that do not go on it; FetchError for a
    full disk.
    """
    image = _image(sources, files)
    with ChangesetWriter(root, origin=image.name) as writer, _task(image, report) as advanced:
        for number, (layer, diff_id) in enumerate(
            zip(image.manifest.layers, image.config.diff_ids, strict=True)
        ):
            origin = f"{image.name}, layer {number + 1} of {len(image.manifest.layers)} ({layer.digest})"
            with layer_stream(image.files[layer.digest], diff_id, origin, advanced) as stream:
                apply_layer(stream, writer, origin, lowest=number == 0)
    if writer.left_out:
        names = ", ".join(writer.left_out_names) + (
            " …" if writer.left_out > len(writer.left_out_names) else ""
        )
        report(Note(f"{image.name}: left out {writer.left_out} devices, fifos or sockets: {names}"))
    debs = [file for source, file in zip(sources, files, strict=True) if source.purl.startswith("pkg:deb/")]
    if debs:
        from lockbuild.environment.package_overlay import add_packages, read_list

        found = Digest.of(read_list(root) or b"")
        if found != packages:
            raise IntegrityError(
                f"its list of packages is {found}, and those on top were chosen for {packages}",
                on=image.name,
                hint="lock again with `lockbuild lock --upgrade base`",
            )
        add_packages(debs, root, platform=platform, report=report)
    settle(root, platform=platform, on=image.name)


@contextmanager
def layer_stream(
    file: Path, diff_id: Digest, origin: str, advanced: Callable[[int], None] = lambda size: None
) -> Iterator[BinaryIO]:
    """The tar in the layer ``file``. The body reads it to its end.

    IntegrityError, which names ``origin``, at the end of the body where its digest is not ``diff_id``. ``advanced`` is
    told how many more bytes of the file have been read.
    """
    with reading(origin), file.open("rb") as raw:
        start = raw.read(512)
        raw.seek(0)
        stream = _Hashed(decompressed(raw, start, name=origin), raw, advanced)
        yield io.BufferedReader(stream, _STEP // 4)
        stream.finish()
    if stream.digest != diff_id:
        raise IntegrityError(
            f"unpacked it has the digest {stream.digest}; the image's configuration says {diff_id}",
            on=origin,
            hint="whoever made this image made it wrong, or wants to deceive: name another one",
        )


class _Hashed(io.RawIOBase):
    """``stream``, which reads from ``file``, with the digest of what was read."""

    def __init__(self, stream: BinaryIO, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        self._stream = stream
        self._file = file
        self._advanced = advanced
        self._told = 0
        self._hasher = hashlib.sha256()

    @property
    def digest(self) -> Digest:
        return Digest(self._hasher.hexdigest())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._hasher.update(data)
        if self._file.tell() - self._told >= _STEP:
            self.finish()
        return len(data)

    def finish(self) -> None:
        """Tell how far it is."""
        position = self._file.tell()
        self._advanced(position - self._told)
        self._told = position


def _image(sources: Sequence[Source], files: Sequence[Path]) -> _Image:
    by_digest = {source.sha256: file for source, file in zip(sources, files, strict=True)}
    manifests = [source for source in sources if source.is_image_manifest]
    if len(manifests) != 1 or manifests[0].sha256 is None:
        raise IntegrityError(
            f"the tree has {len(manifests)} images, not one", hint="the lock was edited; lock again"
        )
    name = manifests[0].location.removeprefix("oci://")

    def file(digest: Digest) -> Path:
        if digest not in by_digest:
            raise IntegrityError(
                f"{digest} is not among the sources, and the image's manifest names it",
                on=name,
                hint="the lock was edited; lock again",
            )
        return by_digest[digest]

    data = file(manifests[0].sha256).read_bytes()
    manifest = read_manifest(data, on=name)
    config = read_config(file(manifest.config.digest).read_bytes(), manifest, on=name)
    return _Image(name, manifest, config, {layer.digest: file(layer.digest) for layer in manifest.layers})


@contextmanager
def _task(image: _Image, report: Reporter) -> Iterator[Callable[[int], None]]:
    key = f"unpack {image.name}"
    total = sum(layer.size for layer in image.manifest.layers)
    report(Started(key, f"unpack {count(len(image.manifest.layers), 'layer')}", total))
    try:
        yield lambda size: report(Advanced(key, size))
    finally:
        report(Finished(key))
