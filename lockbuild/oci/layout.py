"""An OCI image layout in one tar: what image archives and bundles are, written canonically and read with suspicion.

OCI image specification 1.1, image-layout.md: ``oci-layout``, ``index.json`` and ``blobs/<algorithm>/<digits>``. The
tar that is written is canonical in every header (`archive.ustar`), with the small files first, so that a reader of the
stream knows what is to come. Others write the same files in any order and with any headers (``skopeo``, ``docker
save``, ``crane``); all of that is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn

from lockbuild.archive import ustar
from lockbuild.archive.tarheaders import checked_headers
from lockbuild.errors import IntegrityError, storage_error
from lockbuild.model.digest import Digest

if TYPE_CHECKING:
    import tarfile

    from typing_extensions import Buffer

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
INDEX_NAME = "index.json"
MARKER_NAME = "oci-layout"
MARKER = b'{"imageLayoutVersion":"1.0.0"}'
MAX_ENTRIES = 200_000
"""A layout with more entries than this is an attack on time, not a collection of files."""
MAX_JSON = 16 << 20
"""Bytes that an index, a manifest or a configuration may have."""
_CHUNK = 1 << 20
_BUFFER = 128 << 10

Write = Callable[["Buffer"], None]


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """A file to be written: its path in the layout, its size in bytes, and what gives its bytes to a writer."""

    name: str
    size: int
    write: Callable[[Write], None]


def data_file(name: str, data: bytes) -> LayoutFile:
    """A file whose bytes are at hand."""
    return LayoutFile(name, len(data), lambda write: write(data))


def blob_data(data: bytes) -> LayoutFile:
    """The same as a blob."""
    return data_file(blob_name(Digest.of(data)), data)


def blob_file(digest: Digest, size: int, chunks: Callable[[], Iterable[Buffer]]) -> LayoutFile:
    """A blob whose bytes ``chunks()`` gives in pieces; it must see to it that they are right."""

    def write_chunks(write: Write) -> None:
        for chunk in chunks():
            write(chunk)

    return LayoutFile(blob_name(digest), size, write_chunks)


def blob_name(digest: Digest) -> str:
    """Where the blob stands in a layout."""
    return f"blobs/sha256/{digest.hex}"


def write_layout(
    index: bytes, files: Iterable[LayoutFile], write: Write, *, beside: Iterable[LayoutFile] = ()
) -> None:
    """Give the tar of a layout to ``write``, piece by piece.

    First ``oci-layout``, ``index`` as index.json and what stands ``beside`` them (as manifest.json), then the blobs
    ``files`` in the order given, those named twice only once. IntegrityError where a file has another size than it
    said; what ``write`` and the files raise comes through.
    """
    for file in (data_file(MARKER_NAME, MARKER), data_file(INDEX_NAME, index), *beside):
        _write_file(file, write)
    write(ustar.directory_header(b"blobs") + ustar.directory_header(b"blobs/sha256"))
    written: set[str] = set()
    for file in files:
        if file.name not in written:
            written.add(file.name)
            _write_file(file, write)
    write(ustar.END)


def layout_size(index: bytes, files: Iterable[LayoutFile], *, beside: Iterable[LayoutFile] = ()) -> int:
    """How many bytes `write_layout` gives; writes nothing and asks no file for its bytes."""
    sized = {file.name: file.size for file in files}
    small = (data_file(MARKER_NAME, MARKER), data_file(INDEX_NAME, index), *beside)
    each = [*((file.name, file.size) for file in small), *sized.items()]
    headers = sum(len(ustar.file_header(name.encode(), size, executable=False)) for name, size in each)
    data = sum(size + ustar.padding(size) for _, size in each)
    return headers + data + 2 * ustar.BLOCK + len(ustar.END)


def _write_file(file: LayoutFile, write: Write) -> None:
    write(ustar.file_header(file.name.encode(), file.size, executable=False))
    left = file.size

    def counted(data: Buffer) -> None:
        nonlocal left
        left -= memoryview(data).nbytes
        if left < 0:
            raise IntegrityError(
                f"it has more than the {file.size:,} bytes that it should have", on=file.name
            )
        write(data)

    file.write(counted)
    if left:
        raise IntegrityError(
            f"it has {file.size - left:,} bytes and not the {file.size:,} that it should have", on=file.name
        )
    write(bytes(ustar.padding(file.size)))


class LayoutEntry:
    """A file of a layout that is being read; to be read before the next one is asked for, or not at all.

    ``digest`` is what its name says of a blob, None for others.
    """

    def __init__(self, name: str, size: int, source: IO[bytes], origin: str) -> None:
        self.name = name
        self.size = size
        self.digest = _blob_digest(name)
        self._source = source
        self._origin = origin

    def chunks(self) -> Iterator[bytes]:
        """Its bytes in pieces, hashed as they come.

        IntegrityError, before the last piece, where they are not those of a blob's digest, or are too few.
        """
        hasher = hashlib.sha256()
        left = self.size
        if not left:
            self._check(hasher.hexdigest())
        while left:
            chunk = self._some(min(_CHUNK, left))
            left -= len(chunk)
            hasher.update(chunk)
            if not left:
                self._check(hasher.hexdigest())
            yield chunk

    def read(self, *, limit: int = MAX_JSON) -> bytes:
        """All of its bytes, checked as `chunks`; IntegrityError where they are more than ``limit``."""
        if self.size > limit:
            raise _refusal(
                self._origin, f"it has {self.size:,} bytes, where at most {limit:,} are sensible", self.name
            )
        return b"".join(self.chunks())

    def _some(self, size: int) -> bytes:
        import tarfile

        try:
            chunk = self._source.read(size)
        except tarfile.ReadError:
            chunk = b""
        except OSError as error:
            raise storage_error(error, "cannot read it", on=self._origin) from error
        if not chunk:
            raise _refusal(self._origin, "it is cut short", self.name)
        return chunk

    def _check(self, found: str) -> None:
        if self.digest is not None and found != self.digest.hex:
            raise _refusal(
                self._origin,
                f"it does not have the digest that it is called by (but sha256:{found})",
                self.name,
            )


def read_layout(stream: BinaryIO, *, name: str) -> Iterator[LayoutEntry]:
    """Every file of the layout in the tar ``stream``, in its order; never seeks. ``name`` is what messages call it.

    IntegrityError for a stream that is no tar, is cut short, has more than `MAX_ENTRIES` entries, a path with ``..``,
    a path twice, or a blob that is not a file. Holds the names and one piece. Files that no layout has (docker save's
    older ones) come, too: pass over what you do not know, or refuse it.
    """
    with _tar(stream, "r|", name) as (archive, ended):
        for _, entry in _entries(archive, name):
            yield entry
        if not ended():
            raise _refusal(name, "it is cut short: it lacks the blocks that end a tar")


class LayoutArchive:
    """A layout in a tar file that can be sought in: its files by path, in any order. Reads the headers once.

    A context manager. IntegrityError as `read_layout`; FetchError where the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise storage_error(
                error, "cannot read it", on=str(path), instead="or name another file"
            ) from error
        try:
            end = path.stat().st_size
            with _tar(self._file, "r:", str(path)) as (archive, ended):
                for offset, entry in _entries(archive, str(path)):
                    if offset + entry.size > end:
                        raise _refusal(str(path), "it is cut short", entry.name)
                    self._places[entry.name] = (offset, entry.size)
                if not ended():
                    raise _refusal(str(path), "it is cut short: it lacks the blocks that end a tar")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> LayoutArchive:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The paths of its files, in the order in which they stand in it."""
        return list(self._places)

    def has(self, wanted: str | Digest) -> bool:
        """Whether the file, or the blob of that digest, is there."""
        return _name(wanted) in self._places

    def entry(self, wanted: str | Digest) -> LayoutEntry:
        """The file of that path, or the blob of that digest; IntegrityError where it is not there."""
        name = _name(wanted)
        if name not in self._places:
            raise _refusal(str(self.path), "it is not there", name)
        offset, size = self._places[name]
        self._file.seek(offset)
        return LayoutEntry(name, size, self._file, str(self.path))

    def json(self, wanted: str | Digest) -> dict[str, Any]:
        """That file as a JSON object."""
        return parse_object(self.entry(wanted).read(), on=f"{self.path}: {_name(wanted)}")


def parse_object(data: bytes, *, on: str) -> dict[str, Any]:
    """``data`` as a JSON object; IntegrityError where it is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"it is not JSON: {error}", on=on) from error
    if not isinstance(value, dict):
        raise IntegrityError("it is not a JSON object", on=on)
    return value


def _name(wanted: str | Digest) -> str:
    return wanted if isinstance(wanted, str) else blob_name(wanted)


def _blob_digest(name: str) -> Digest | None:
    head, _, digits = name.rpartition("/")
    if head != "blobs/sha256":
        return None
    try:
        return Digest(digits)
    except ValueError:
        return None


def _entries(archive: tarfile.TarFile, name: str) -> Iterator[tuple[int, LayoutEntry]]:
    seen: set[str] = set()
    count = 0
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # else it keeps all
        count += 1
        if count > MAX_ENTRIES:
            raise _refusal(name, f"it has more than {MAX_ENTRIES:,} entries")
        path = _path(name, member.name)
        if member.isdir():
            continue
        if path in seen:
            raise _refusal(name, "it has a file twice", path)
        seen.add(path)
        if not member.isreg() or member.issparse():
            if path.startswith("blobs/"):
                raise _refusal(name, "a blob is not a plain file", path)
            continue  # the links of docker save's older layout, which say nothing new
        data = archive.extractfile(member)
        assert data is not None
        yield member.offset_data, LayoutEntry(path, member.size, data, name)


def _path(origin: str, name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise _refusal(origin, "a path leads out of it", name)
    return "/".join(parts)


@contextmanager
def _tar(stream: BinaryIO, mode: str, name: str) -> Iterator[tuple[tarfile.TarFile, Callable[[], bool]]]:
    """The tar, and whether its end was seen. Turns what `tarfile` raises into errors that name the layout."""
    import tarfile

    def refuse(why: str) -> NoReturn:
        raise _refusal(name, why)

    header, ended = checked_headers(refuse)
    try:
        with tarfile.open(
            fileobj=stream, mode=mode, bufsize=_BUFFER, tarinfo=header, errors="surrogateescape"
        ) as archive:  # type: ignore[call-overload]
            yield archive, ended
    except tarfile.ReadError as error:
        if str(error) not in ("invalid header", "file could not be opened successfully", "empty file"):
            raise _refusal(name, f"it is no tar, or a damaged one: {error}") from error
        raise IntegrityError(
            "this is no image archive: it is no tar",
            on=name,
            hint="name a file that `lockbuild image build` or `docker save` wrote",
        ) from error
    except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
        raise _refusal(name, f"it is no tar, or a damaged one: {error}") from error


def _refusal(origin: str, why: str, entry: str | None = None) -> IntegrityError:
    shown = f"{origin}: {repr(entry)[1:-1]}" if entry else origin
    return IntegrityError(
        f"the image layout cannot be read: {why}",
        on=shown,
        hint="it was damaged on its way, or made to do harm; get it again",
    )
