"""Reads a bundle that nobody vouches for, as a stream, and takes no byte in it that must not be there.

A bundle's tar is a function of its contents, so the reader knows what has to come next: the header of every file is
compared with the one that must stand there, and every file with its digest. Nothing is interpreted that could be
made to mean something else: no name leads anywhere, no link is followed, nothing can be added or be there twice.

What is read before anything is believed is bounded: the contents and the lock by their size, all else by what these
say. ``index.json`` and the manifests are never parsed, only compared with what they must be.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.oci.bundle import contents as bundle
from lockbuild.oci.bundle.binding import strangers
from lockbuild.oci.bundle.parse import parse_contents, parse_lock, refused
from lockbuild.oci.bundle.source import ByteSource
from lockbuild.oci.bundle.text import index_text
from lockbuild.oci.layout import INDEX_NAME, MARKER, MARKER_NAME, blob_name

if TYPE_CHECKING:
    from lockbuild.model.platform import Platform

INDEX_TEXT = "INDEX.txt"
"""Beside index.json: what a person reads."""
LIMIT = 4 << 20
"""Bytes that the index for people, index.json, the manifests and the contents may have, each."""
LOCK_LIMIT = 2 << 20
"""And those of the lock: some eight thousand sources."""
_CHUNK = 1 << 20
_SHOWN = 5
_BLOB = re.compile(rb"blobs/sha256/([0-9a-f]{64})")
_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a directory",
    b"6": "a fifo", b"x": "a pax header", b"g": "a pax header", b"L": "a long name", b"K": "a long name",
}  # fmt: skip


class CutShortError(IntegrityError):
    """The bundle ends too early; what came of it is sound as far as that can be said."""


@dataclass(slots=True)
class Section:
    """A blob as it comes: take its `chunks`, or `skip` it."""

    digest: Digest
    size: int
    label: str
    _reader: BundleReader
    _left: int = -1

    def chunks(self) -> Iterator[bytes]:
        """Its bytes. IntegrityError, instead of the last piece, where they are not those of its digest."""
        hasher = hashlib.sha256()
        self._left = self.size
        while self._left:
            data = self._reader.some(min(self._left, _CHUNK), self.label)
            self._left -= len(data)
            hasher.update(data)
            if not self._left:
                self._check(hasher.hexdigest())
            yield data
        if not self.size:
            self._check(hasher.hexdigest())

    def skip(self) -> None:
        """Pass over it; nobody has looked at it then."""
        self._reader.pass_over(self.size)
        self._left = 0

    def finish(self) -> None:
        """Read what nobody took, and look at that, too."""
        if self._left < 0:
            for _ in self.chunks():
                pass
        elif self._left:
            raise self._reader.refuse(f"{self.label} does not end where it should")

    def _check(self, found: str) -> None:
        if found != self.digest.hex:
            raise self._reader.refuse(
                f"{self.label} is damaged: its bytes have the digest sha256:{found}, not {self.digest}"
            )


class BundleReader:
    """A bundle. To construct it reads everything but the blobs, and proves that all fits together and that the lock
    names all of it; IntegrityError where not, UsageError where it is no bundle that this version knows."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.name = source.name
        self.position = 0
        """Bytes read or passed over so far."""
        self._read_head()

    def _read_head(self) -> None:
        layout = self._file(MARKER_NAME, LIMIT, block=self._first_block())
        index = self._file(INDEX_NAME, LIMIT)
        text = self._file(INDEX_TEXT, LIMIT)
        directories = ustar.directory_header(b"blobs") + ustar.directory_header(b"blobs/sha256")
        block = self._exactly(ustar.BLOCK, "its blobs")
        docker: bytes | None = None
        if block.startswith(b"manifest.json\0"):
            docker = self._file("manifest.json", LIMIT, block=block)
            block = self._exactly(ustar.BLOCK, "its blobs")
        self._expect(directories, "its blobs", begun=block)
        manifest = self._blob("the manifest", LIMIT)
        data = self._blob("the list of its contents", LIMIT)
        self.contents = parse_contents(data, self.name)
        self.lock_text = self._blob("the lock", LOCK_LIMIT)
        if Digest.of(self.lock_text) != self.contents.lock.digest:
            raise self.refuse("its lock is another one than its list of contents names")
        self.lock = parse_lock(self.lock_text, self.name)
        if found := list(strangers(self.contents, self.lock)):
            more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise self.refuse(f"it holds what its lock does not name: {'; '.join(found[:_SHOWN])}{more}")
        configs = self._images()
        for name, present, wanted in (
            (MARKER_NAME, layout, MARKER),
            (INDEX_NAME, index, bundle.layout_index(self.contents, self.lock)),
            (INDEX_TEXT, text, index_text(self.contents, self.lock).encode()),
            ("manifest.json", docker, self._docker(configs)),
            ("the manifest", manifest, bundle.manifest(self.contents)),
        ):
            if present != wanted:
                raise self.refuse(f"{name} is not the one of its contents")

    def _docker(self, configs: dict[Platform, bytes]) -> bytes | None:
        try:
            return bundle.docker_manifest(self.contents, self.lock, configs)
        except KeyError as error:
            raise self.refuse(f"its image has a layer that it does not hold: {error.args[0]}") from None

    def _images(self) -> dict[Platform, bytes]:
        """The configurations of the images; their manifests are what they must be."""
        configs: dict[Platform, bytes] = {}
        for image in self.contents.images:
            config = self._known(f"the image for {image.platform}", image.config.digest, image.config.size)
            configs[image.platform] = config
            written = self._known(
                f"the manifest for {image.platform}", image.manifest.digest, image.manifest.size
            )
            try:
                wanted = bundle.image_manifest(self.contents, config)
            except (KeyError, ValueError, TypeError, RecursionError):
                raise self.refuse(f"it does not hold the layers of its image for {image.platform}") from None
            if written != wanted:
                raise self.refuse(f"the manifest for {image.platform} is not the one of its image")
        wanted_index = bundle.image_index(self.contents)
        if wanted_index is not None:
            self._known("the index of its images", Digest.of(wanted_index), len(wanted_index))
        return configs

    def sections(self) -> Iterator[Section]:
        """Every blob that it holds, in order; then the end. What is not taken of one is read and checked."""
        labels = self._labels()
        for _, blob in self.contents.held():
            self._expect(
                ustar.file_header(blob_name(blob.digest).encode(), blob.size, executable=False),
                blob_name(blob.digest),
            )
            section = Section(blob.digest, blob.size, labels.get(blob.digest, str(blob.digest)), self)
            yield section
            section.finish()
            self._padding(blob.size, section.label)
        if any(self._exactly(len(ustar.END), "its end")):
            raise self.refuse("something follows where it should end")
        if self._source.read(1):
            raise self.refuse("something follows its end")

    def _labels(self) -> dict[Digest, str]:
        labels = {blob.digest: f"the signed index {blob.digest.short}" for blob in self.contents.signatures}
        labels |= {item.digest: f"the document {item.name}" for item in self.contents.documents}
        labels |= {item.digest: f"the source {item.purls[0]}" for item in self.contents.sources}
        labels |= {
            item.layer.digest: f"the layer of {item.names[0]}" for item in self.contents.trees if item.layer
        }
        return labels

    # Files of the tar

    def _first_block(self) -> bytes:
        """UsageError where it is not that of a bundle."""
        block = b""
        while len(block) < ustar.BLOCK and (more := self._source.read(ustar.BLOCK - len(block))):
            block += more
        self.position = len(block)
        mark = MARKER_NAME.encode()
        if not block.startswith(mark) and not (len(block) < len(mark) and mark.startswith(block)):
            raise UsageError("this is no bundle of lockbuild", on=self.name)
        return block + self._exactly(ustar.BLOCK - len(block), MARKER_NAME)

    def _file(self, name: str, limit: int, *, block: bytes | None = None) -> bytes:
        """The file of that name, which comes next."""
        block = self._exactly(ustar.BLOCK, name) if block is None else block
        size = _size(block)
        if size is None or block != ustar.file_header(name.encode(), size, executable=False):
            raise self.refuse(f"there should be {name}, and not {_described(block)}")
        return self._data(name, size, limit)

    def _blob(self, label: str, limit: int) -> bytes:
        """A blob under its own digest, which nothing has named yet."""
        block = self._exactly(ustar.BLOCK, label)
        size = _size(block)
        name = block[:100].rstrip(b"\0")
        if (
            size is None
            or not _BLOB.fullmatch(name)
            or block != ustar.file_header(name, size, executable=False)
        ):
            raise self.refuse(f"there should be {label}, and not {_described(block)}")
        data = self._data(label, size, limit)
        if Digest.of(data).hex != name[-64:].decode():
            raise self.refuse(f"{label} is damaged: its bytes do not have the digest that is its name")
        return data

    def _known(self, label: str, digest: Digest, size: int) -> bytes:
        """A blob whose digest the contents name."""
        self._expect(ustar.file_header(blob_name(digest).encode(), size, executable=False), label)
        data = self._data(label, size, LIMIT)
        if Digest.of(data) != digest:
            raise self.refuse(f"{label} is damaged: its bytes do not have the digest that is its name")
        return data

    def _data(self, label: str, size: int, limit: int) -> bytes:
        if size > limit:
            raise self.refuse(f"{label} has {size:,} bytes, and may have {limit:,}")
        data = self._exactly(size, label)
        self._padding(size, label)
        return data

    def _expect(self, header: bytes, name: str, *, begun: bytes = b"") -> None:
        found = begun + self._exactly(len(header) - len(begun), name)
        if found != header:
            raise self.refuse(f"there should be {name}, and not {_described(found)}")

    def _padding(self, size: int, label: str) -> None:
        if any(self._exactly(ustar.padding(size), label)):
            raise self.refuse(f"something stands between {label} and what follows")

    # Bytes

    def some(self, limit: int, label: str) -> bytes:
        """At least one byte and at most ``limit``."""
        data = self._source.read(limit)
        if not data:
            raise CutShortError(
                f"the bundle is cut short: it ends after {self.position:,} bytes, in {label}",
                on=self.name,
                hint="get it again; what was loaded of it stays and is not loaded twice",
            )
        self.position += len(data)
        return data

    def pass_over(self, size: int) -> None:
        """Leave out so many bytes."""
        self._source.skip(size)
        self.position += size

    def _exactly(self, size: int, label: str) -> bytes:
        parts = []
        while size:
            parts.append(self.some(size, label))
            size -= len(parts[-1])
        return b"".join(parts)

    def refuse(self, why: str) -> IntegrityError:
        """The error that says why the bundle is not taken."""
        return refused(self.name, why)


def _size(block: bytes) -> int | None:
    field = block[124:135]
    return int(field, 8) if re.fullmatch(rb"[0-7]{11}", field) else None


def _described(block: bytes) -> str:
    if not any(block[: ustar.BLOCK]):
        return "its end"
    name = block[:100].rstrip(b"\0").decode("utf-8", "backslashreplace")
    kind = _KINDS.get(block[156:157])
    shown = repr(name)
    return f"{shown}, {kind}" if kind else shown
