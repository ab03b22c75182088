"""Reads a canonical tar back into the tree that it is the tar of, and accepts no other stream.

`canonical` defines the bytes, so nothing is left to interpret: every header must be the one that `ustar` writes
for what it says, every entry must come after the one before and below a directory that came before, and nothing
may follow the end. So no name can climb out, no file is written through a link, and no two streams give the same
tree. A symbolic link may lead anywhere: whether the tree is the right one is for its digest to say.

This is not for archives of others: those are read by `extract`.
"""

# Names are bytes here, which pathlib does not take.
# ruff: noqa: PTH101, PTH102, PTH211
from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError, storage_error

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EPOCH = (0, 0)
_MAX_HEADER = 1 << 20
_MAX_NAME = 64 << 10


def read_canonical_tar(chunks: Iterator[bytes], destination: Path, *, name: str) -> None:
    """Make the entries of the canonical tar that ``chunks`` is below the empty directory ``destination``.

    ``name`` is what messages call it. Streams; holds one chunk and the names of directories. IntegrityError for
    whatever is not exactly a canonical tar (what was written until then stays), FetchError where the file system
    refuses. What stands there in the end has the modes and times that the tar says.
    """
    source = _Source(chunks, name)
    root = os.fsencode(destination) + b"/"
    modes = _Modes.here()
    directories: set[bytes] = {b""}
    last = b""
    try:
        while (entry := _next_entry(source)) is not None:
            path, kind, size, executable, target = entry
            if path <= last:
                raise source.refuse("its entries are not in order", path)
            last = path
            _check_name(source, path, directories)
            if kind == b"5":
                os.mkdir(root + path, 0o755)
                modes.directory(root + path)
                directories.add(path)
            elif kind == b"2":
                if not target or b"\0" in target:
                    raise source.refuse("the target of a link is empty or has a NUL byte", path)
                os.symlink(target, root + path)
                os.utime(root + path, ns=_EPOCH, follow_symlinks=False)
            else:
                _write_file(source, root + path, size, executable, modes)
        for path in directories:
            os.utime(root + path, ns=_EPOCH)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
            raise source.refuse(f"an entry cannot be made: {error.strerror}", last) from error
        raise storage_error(error, "cannot unpack", on=f"{name}: {os.fsdecode(last)}") from error
    source.end()


@dataclass(frozen=True, slots=True)
class _Modes:
    """What has to be done for entries to have the modes of a canonical tar: nothing, under the usual umask."""

    umask: int

    @classmethod
    def here(cls) -> _Modes:
        with Path("/proc/self/status").open("rb") as status:
            found = [line.split()[1] for line in status if line.startswith(b"Umask:")]
        return cls(int(found[0], 8) if found else 0o777)

    def directory(self, path: bytes) -> None:
        if self.umask & 0o755:
            os.chmod(path, 0o755)  # noqa: S103

    def file(self, descriptor: int, executable: bool) -> None:
        mode = 0o755 if executable else 0o644
        if self.umask & mode:
            os.fchmod(descriptor, mode)


class _Source:
    """The stream as pieces of whatever size is asked for."""

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks = chunks
        self._view = memoryview(b"")
        self.name = name

    def some(self, limit: int) -> memoryview:
        """At least one and at most ``limit`` bytes."""
        while not self._view:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise self.refuse("it is cut short")
            self._view = memoryview(chunk)
        piece, self._view = self._view[:limit], self._view[limit:]
        return piece

    def exactly(self, size: int) -> bytes:
        """Just so many bytes."""
        if len(self._view) >= size:
            piece, self._view = self._view[:size], self._view[size:]
            return bytes(piece)
        parts = []
        while size:
            part = self.some(size)
            parts.append(bytes(part))
            size -= len(part)
        return b"".join(parts)

    def end(self) -> None:
        """IntegrityError where there is more."""
        if self._view or any(len(chunk) for chunk in self._chunks):
            raise self.refuse("something follows its end")

    def refuse(self, why: str, path: bytes = b"") -> IntegrityError:
        shown = repr(os.fsdecode(path))[1:-1]
        return IntegrityError(
            f"this is not the canonical tar of a tree: {why}",
            on=f"{self.name}: {shown}" if shown else self.name,
            hint="it was damaged, or made by something else than lockbuild; get it again",
        )


def _next_entry(source: _Source) -> tuple[bytes, bytes, int, bool, bytes] | None:
    """Name, kind (``0``, ``2`` or ``5``), size, whether it is executable, link target; None at the end."""
    block = source.exactly(ustar.BLOCK)
    raw = block
    records: dict[bytes, bytes] = {}
    if block[156:157] == b"x":
        size = _number(source, block[124:136])
        if size > _MAX_HEADER:
            raise source.refuse("an entry has a header of more than a megabyte")
        body = source.exactly(size + ustar.padding(size))
        records = _records(source, body[:size])
        block = source.exactly(ustar.BLOCK)
        raw += body + block
    elif not any(block):
        if any(source.exactly(ustar.BLOCK)):
            raise source.refuse("a single zero block stands in it")
        return None
    kind = block[156:157]
    path = records.get(b"path", block[:100].rstrip(b"\0"))
    size = int(records[b"size"]) if b"size" in records else _number(source, block[124:136])
    executable = block[100:108] == b"0000755\0"
    target = b""
    if kind == b"5":
        path = path[:-1] if path.endswith(b"/") else path
        expected = ustar.directory_header(path)
    elif kind == b"2":
        target = records.get(b"linkpath", block[157:257].rstrip(b"\0"))
        expected = ustar.symlink_header(path, target)
    elif kind == b"0":
        expected = ustar.file_header(path, size, executable=executable)
    else:
        raise source.refuse("it has an entry that is neither a file, a directory nor a symbolic link", path)
    if raw != expected:
        raise source.refuse("the header of an entry is not the canonical one", path)
    return path, kind, size, executable, target


def _number(source: _Source, field: bytes) -> int:
    digits = field[:11]
    if not digits.isdigit() or b"8" in digits or b"9" in digits:
        raise source.refuse("a size is not a number")
    return int(digits, 8)


def _records(source: _Source, data: bytes) -> dict[bytes, bytes]:
    """The records of a pax header. That they are written as they must be, the comparison of the header shows."""
    records: dict[bytes, bytes] = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > 8 or not 0 < int(length) <= len(data):
            raise source.refuse("a pax header is damaged")
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"size" and not (value.isdigit() and len(value) < 20):
            raise source.refuse("a size is not a number")
        records[key] = value
        data = data[int(length) :]
    return records


def _check_name(source: _Source, path: bytes, directories: set[bytes]) -> None:
    parent, _, name = path.rpartition(b"/")
    if name in (b"", b".", b"..") or b"\0" in path or len(path) > _MAX_NAME:
        raise source.refuse("an entry has an impossible name", path)
    if name.startswith(b".wh."):
        raise source.refuse("an entry is a whiteout", path)
    if parent not in directories:
        raise source.refuse("an entry stands below what is not a directory of it", path)


def _write_file(source: _Source, path: bytes, size: int, executable: bool, modes: _Modes) -> None:
    descriptor = os.open(path, _CREATE, 0o755 if executable else 0o644)
    try:
        left = size
        while left:
            piece = source.some(left)
            left -= len(piece)
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        modes.file(descriptor, executable)
        os.utime(descriptor, ns=_EPOCH)
    finally:
        os.close(descriptor)
    pad = ustar.padding(size)
    if pad and any(source.exactly(pad)):
        raise source.refuse("what fills a block is not zero")
