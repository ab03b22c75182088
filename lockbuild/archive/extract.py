"""Unpacks tar and zip archives that nobody vouches for.

The formats are read by `tarfile` (as a stream: it then cannot be made to seek backwards) and
`zipfile`; what their entries may do is decided by `TreeWriter`. Formats: POSIX.1-2017 `pax`, GNU
tar's manual, PKWARE APPNOTE 6.3. The compression is told from the file's first bytes, not its name.
"""

from __future__ import annotations

import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, NoReturn, cast

from lockbuild.archive.tarheaders import checked_headers
from lockbuild.archive.treewriter import LIMIT, TreeWriter
from lockbuild.errors import IntegrityError, storage_error

if TYPE_CHECKING:
    import tarfile
    import zipfile

_READ = 1 << 20
_BUFFER = 32 << 10
"""`tarfile` moves what is left of its buffer at every read: a large one makes it three times slower."""
_DRAIN = 1 << 30


def extract_archive(
    path: Path, destination: Path, *, name: str, strip: int = 0, below: str = "", limit: int = LIMIT
) -> None:
    """Unpack the archive at ``path``, a tar (plain, gzip, xz, bzip2, zstd) or a zip, below ``destination``.

    ``name`` is what messages call it; ``strip`` leading components of each path are dropped, and
    entries that have no more than those. Of what is left only the directory ``below`` is taken, if given,
    and its content stands at ``destination``, which is made; after an error it holds a part.
    IntegrityError for an archive that is damaged or not safe, FetchError where it cannot be written.
    """
    with reading(name), path.open("rb") as file:
        start = file.read(512)
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        extract_zip(path, destination, strip=strip, below=below, name=name, limit=limit)
    else:
        extract_tar(path, destination, strip=strip, below=below, name=name, limit=limit)


def extract_tar(
    source: Path | BinaryIO,
    destination: Path,
    *,
    strip: int = 0,
    below: str = "",
    name: str | None = None,
    limit: int = LIMIT,
) -> None:
    """The same for a tar: a path, or a stream of a tar that is not compressed."""
    shown = name or (source.name if isinstance(source, Path) else "archive")
    destination.mkdir(parents=True, exist_ok=True)
    with TreeWriter(destination, origin=shown, limit=limit) as writer:
        if isinstance(source, Path):
            with open_tar(source, name=shown) as stream:
                unpack_tar(stream, writer, strip=strip, below=below)
        else:
            unpack_tar(source, writer, strip=strip, below=below)


def extract_zip(
    path: Path,
    destination: Path,
    *,
    strip: int = 0,
    below: str = "",
    name: str | None = None,
    limit: int = LIMIT,
) -> None:
    """The same for a zip."""
    destination.mkdir(parents=True, exist_ok=True)
    with TreeWriter(destination, origin=name or path.name, limit=limit) as writer:
        unpack_zip(path, writer, strip=strip, below=below)


@contextmanager
def open_tar(path: Path, *, name: str) -> Iterator[BinaryIO]:
    """The tar stream in the file ``path``, decompressed as its first bytes ask for."""
    with path.open("rb") as file:
        start = file.read(512)
        file.seek(0)
        with decompressed(file, start, name=name) as stream:
            yield stream


def decompressed(file: BinaryIO, start: bytes, *, name: str) -> BinaryIO:
    """``file`` (which begins with the bytes ``start``) read through the decompressor that it needs.

    IntegrityError where the bytes are neither compressed nor a tar.
    """
    if start.startswith(b"\x1f\x8b"):
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if start.startswith(b"\xfd7zXZ\0"):
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(file))
    if start.startswith(b"BZh"):
        import bz2

        return cast(BinaryIO, bz2.BZ2File(file))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        import zstandard

        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    if len(start) == 512 and (start[257:262] == b"ustar" or _is_old_header(start) or not any(start)):
        return file
    raise _damaged(name, "it is neither a tar (plain, gzip, xz, bzip2 or zstd) nor a zip")


def unpack_tar(stream: BinaryIO, writer: TreeWriter, *, strip: int = 0, below: str = "") -> None:
    """Hand every entry of the tar ``stream`` (not compressed) to ``writer``.

    Reads to the end of the stream, so that a checksum that stands there is checked.
    """
    kept = _Kept(strip, below)
    with reading(writer.origin):
        for archive, member in tar_members(stream, writer.origin):
            _unpack_member(archive, member, writer, kept)


def tar_members(stream: BinaryIO, origin: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Every entry of the tar ``stream`` (not compressed), with the archive that its bytes can be read from until the
    next one is asked for. Reads to the end of the stream. To be used inside `reading`.

    IntegrityError, which names ``origin``, where it is cut short.
    """
    import tarfile

    def refuse(why: str) -> NoReturn:
        raise _damaged(origin, why)

    header, ended = checked_headers(refuse)
    with tarfile.open(
        fileobj=stream,
        mode="r|",
        bufsize=_BUFFER,
        encoding="utf-8",
        errors="surrogateescape",
        tarinfo=header,
    ) as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else it keeps all
            yield archive, member
        if not ended():
            raise _damaged(origin, "it is cut short: it lacks the blocks that end a tar")
        _drain(stream, origin)


def unpack_zip(path: Path, writer: TreeWriter, *, strip: int = 0, below: str = "") -> None:
    """Hand every entry of the zip at ``path`` to ``writer``. Checks each one's CRC-32."""
    import zipfile

    kept = _Kept(strip, below)
    with reading(writer.origin), zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            name = kept.name(item.filename.encode("utf-8", "surrogateescape"))
            if name is not None:
                _unpack_item(archive, item, name, writer)


def _unpack_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, writer: TreeWriter, kept: _Kept
) -> None:
    name = kept.name(_encoded(member.name))
    if name is None:
        return
    if member.isdir():
        writer.directory(name)
    elif member.issym():
        writer.symlink(name, _encoded(member.linkname))
    elif member.islnk():
        target = kept.name(_encoded(member.linkname))
        if target is None:
            raise _damaged(writer.origin, f"the hard link {member.name!r} leads to what is left out")
        writer.hardlink(name, target)
    elif member.isreg():
        data = archive.extractfile(member)
        assert data is not None
        writer.file(name, data, size=member.size, executable=bool(member.mode & 0o111))
    else:
        kind = "a device" if member.ischr() or member.isblk() else "a fifo" if member.isfifo() else "special"
        writer.unsafe(name, f"the entry is {kind}")


def _unpack_item(archive: zipfile.ZipFile, item: zipfile.ZipInfo, name: bytes, writer: TreeWriter) -> None:
    mode = item.external_attr >> 16 if item.create_system == 3 else 0
    kind = stat.S_IFMT(mode)
    if item.flag_bits & 1:
        raise _damaged(writer.origin, f"the entry {item.filename!r} is encrypted")
    if item.is_dir():
        writer.directory(name)
    elif kind == stat.S_IFLNK:
        with archive.open(item) as data:
            writer.symlink(name, data.read(os.pathconf("/", "PC_PATH_MAX")))
    elif kind in (0, stat.S_IFREG):
        with archive.open(item) as data:
            writer.file(name, data, size=item.file_size, executable=bool(mode & 0o111))
    else:
        writer.unsafe(name, "the entry is a device, a fifo or a socket")


class _Kept:
    """What of an archive is taken: without the first ``strip`` components, the content of the directory ``below``."""

    def __init__(self, strip: int, below: str) -> None:
        self._strip = strip
        self._below = [part for part in _encoded(below).split(b"/") if part not in (b"", b".")]

    def name(self, name: bytes) -> bytes | None:
        """Where the entry ``name`` stands in the end; None where it is left out. Unsafe names stay as they are."""
        dropped = self._strip + len(self._below)
        if not dropped or name.startswith(b"/"):
            return name
        parts = [part for part in name.split(b"/") if part not in (b"", b".")]
        if b".." in parts:
            return name
        if len(parts) < dropped or parts[self._strip : dropped] != self._below:
            return None
        if len(parts) == dropped:
            return b"" if self._below else None
        return b"/".join(parts[dropped:])


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _drain(stream: IO[bytes], origin: str) -> None:
    """Read what follows the end of the tar: padding, and in a compressed one the checksum."""
    left = _DRAIN
    while chunk := stream.read(_READ):
        left -= len(chunk)
        if left < 0:
            raise _damaged(origin, "more than a gigabyte follows its end")


def _is_old_header(block: bytes) -> bool:
    """Whether a block without the ustar magic is a header of the old (V7) tar: its checksum is right."""
    field = block[148:156].strip(b" \0")
    if not field.isdigit():
        return False
    try:
        return int(field, 8) == sum(block[:148]) + sum(block[156:]) + 8 * 32
    except ValueError:
        return False


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns whatever the readers of the formats raise into errors that name the archive."""
    import lzma
    import struct
    import tarfile
    import zipfile

    damage: tuple[type[Exception], ...] = (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        OverflowError,
        NotImplementedError,
        struct.error,
    )
    try:
        yield
    except OSError as error:
        if error.errno is None:  # how gzip and bz2 say that the data are bad
            raise _damaged(name, f"it is damaged: {error}") from error
        raise storage_error(error, "cannot unpack", on=name) from error
    except damage as error:
        raise _damaged(name, f"it is damaged: {error}") from error
    except Exception as error:
        zstandard = sys.modules.get("zstandard")
        if zstandard is not None and isinstance(error, zstandard.ZstdError):
            raise _damaged(name, f"it is damaged: {error}") from error
        raise


def _damaged(name: str, why: str) -> IntegrityError:
    return IntegrityError(
        f"the archive cannot be unpacked: {why}",
        on=name,
        hint="if its digest is the one that was asked for, it is so at its publisher's: name another archive",
    )
