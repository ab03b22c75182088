"""Read Debian binary packages: ``deb(5)``, format 2.0.

A ``.deb`` is an ``ar`` archive of three members: ``debian-binary``, ``control.tar[.gz|.xz|.zst]``
and ``data.tar[.gz|.xz|.bz2|.lzma|.zst]``. It is read as data only; nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from lockbuild.errors import IntegrityError

_MAGIC = b"!<arch>\n"
_HEADER = 60
_DICTIONARY_LIMIT = 256 << 20
"""Bytes of memory that a compressed member may ask its decompressor for (``xz -9`` asks for 65 MiB)."""
_CONTROL_LIMIT = 64 << 20
"""Bytes that a package's control files may have together."""


def _wrong(deb: Path, what: str) -> IntegrityError:
    return IntegrityError(
        f"is not a sound Debian package: {what}",
        on=str(deb),
        hint="if its digest is the locked one, the package itself is broken: ask for another version of it",
    )


class _Member(RawIOBase):
    """The bytes of one ``ar`` member, as a stream of its own."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._file.read(min(len(view), self._left))
        if not data and self._left:
            raise EOFError("the file ends inside a member")
        view[: len(data)] = data
        self._left -= len(data)
        return len(data)


def _find(file: BinaryIO, deb: Path, wanted: str) -> tuple[str, _Member]:
    """Leave ``file`` at the start of the member ``wanted`` (``data.tar``); its compression and its bytes."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise _wrong(deb, "no ar archive")
    first = True
    while header := file.read(_HEADER):
        if len(header) < _HEADER or header[58:60] != b"`\n":
            raise _wrong(deb, "a damaged ar header")
        name = header[:16].decode("latin-1").rstrip(" ").rstrip("/")
        field = header[48:58].strip(b" ")
        if not field.isdigit():
            raise _wrong(deb, "a damaged ar header")
        size = int(field)
        if first:
            if name != "debian-binary" or not file.read(size).startswith(b"2."):
                raise _wrong(deb, "its format is not 2.x")
            file.seek(size % 2, 1)
            first = False
        elif name == wanted or name.startswith(wanted + "."):
            return name[len(wanted) :], _Member(file, size)
        else:
            file.seek(size + size % 2, 1)
    raise _wrong(deb, f"it has no {wanted}")


def _decompressed(deb: Path, member: str, suffix: str, stream: BinaryIO) -> BinaryIO:
    if suffix == ".xz":
        return _lzma(stream, "xz")
    if suffix == ".zst":
        import zstandard

        return cast(
            BinaryIO,
            zstandard.ZstdDecompressor(max_window_size=_DICTIONARY_LIMIT).stream_reader(
                stream, read_across_frames=True
            ),
        )
    if suffix == ".gz":
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb"))
    if suffix == ".bz2":
        import bz2

        return cast(BinaryIO, bz2.BZ2File(stream))
    if suffix == ".lzma":
        return _lzma(stream, "alone")
    if suffix == "":
        return stream
    raise _wrong(deb, f"{member}{suffix} has an unknown compression")


def _lzma(stream: BinaryIO, container: str) -> BinaryIO:
    import lzma

    class Decompressed(RawIOBase):
        """``lzma.LZMAFile`` has no memory limit and copies once more; this has and does not."""

        def __init__(self) -> None:
            self._decompressor = self._new()

        def _new(self) -> lzma.LZMADecompressor:
            kind = lzma.FORMAT_XZ if container == "xz" else lzma.FORMAT_ALONE
            return lzma.LZMADecompressor(kind, memlimit=_DICTIONARY_LIMIT)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            view = memoryview(cast(bytearray, buffer)).cast("B")
            while True:
                if self._decompressor.eof:
                    rest = self._decompressor.unused_data or stream.read(1 << 16)
                    rest = rest.lstrip(b"\0")  # stream padding
                    if not rest:
                        return 0
                    self._decompressor = self._new()
                elif self._decompressor.needs_input:
                    rest = stream.read(1 << 16)
                    if not rest:
                        raise EOFError("the compressed stream ends too early")
                else:
                    rest = b""
                data = self._decompressor.decompress(rest, len(view))
                if data:
                    view[: len(data)] = data
                    return len(data)

    return cast(BinaryIO, BufferedReader(Decompressed(), 1 << 18))


@contextmanager
def _open(deb: Path, member: str) -> Iterator[BinaryIO]:
    import lzma
    import tarfile
    import zlib

    faults: list[type[Exception]] = [EOFError, lzma.LZMAError, zlib.error, tarfile.TarError]
    with deb.open("rb") as file:
        suffix, raw = _find(file, deb, member)
        if suffix == ".zst":
            import zstandard

            faults.append(zstandard.ZstdError)
        try:
            with _decompressed(deb, member, suffix, cast(BinaryIO, BufferedReader(raw, 1 << 18))) as stream:
                yield stream
        except tuple(faults) as error:
            raise _wrong(deb, f"{member}{suffix}: {error or type(error).__name__}") from error
        except OSError as error:
            # gzip and bz2 say "not my format" so; what the system says has an errno and is not ours.
            if error.errno is not None:
                raise
            raise _wrong(deb, f"{member}{suffix}: {error}") from error


@contextmanager
def open_data(deb: Path) -> Iterator[BinaryIO]:
    """The package's ``data.tar``, decompressed, as a stream that reads forward only.

    Raises IntegrityError where the file is no Debian package, has an unknown compression or is
    damaged, also when that shows only while the stream is read inside the ``with`` block.
    """
    with _open(deb, "data.tar") as stream:
        yield stream


def control_files(deb: Path) -> dict[str, bytes]:
    """The package's control files (``control``, ``postinst``, ``md5sums``, …) by name, as data.

    Raises IntegrityError as `open_data` does, and where ``control`` is absent.
    """
    import tarfile

    files: dict[str, bytes] = {}
    total = 0
    with _open(deb, "control.tar") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if not member.isfile():
                continue
            total += member.size
            if total > _CONTROL_LIMIT:
                raise _wrong(deb, "its control files are too large")
            content = tar.extractfile(member)
            assert content is not None
            files[member.name.removeprefix("./")] = content.read()
    if "control" not in files:
        raise _wrong(deb, "it has no control file")
    return files


def control_fields(text: bytes) -> dict[str, str]:
    """The fields of a ``control`` file's first paragraph (``deb-control(5)``) by lower-case name.

    A folded field's continuation lines are joined with newlines, their leading blank kept away.
    """
    fields: dict[str, str] = {}
    name = ""
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        if not line.strip():
            if fields:
                break
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line[1:]
        else:
            key, _, value = line.partition(":")
            name = key.strip().lower()
            fields[name] = value.strip()
    return fields
