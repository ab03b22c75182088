"""The canonical tar of a tree as content that can be sent from anywhere on, without ever being made.

It is the uncompressed layer of an image (see `lockbuild.archive.canonical` for the format). Where each entry begins
follows from names and sizes alone; big files go out by sendfile(2).
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from lockbuild.archive import ustar
from lockbuild.archive.canonical import Entry, scan
from lockbuild.serve.message import Outlet

_BIG = 256 << 10
_BUFFER = 1 << 20


class TreeTar:
    """The tar of the tree that is unpacked at ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root) + b"/"
        self._entries: Sequence[Entry] = scan(root)
        self._starts = [0]
        for entry in self._entries:
            size = entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
            length = len(self._head(entry)) + size + ustar.padding(size)
            self._starts.append(self._starts[-1] + length)
        self.size: int = self._starts[-1] + len(ustar.END)

    def send(self, out: Outlet, start: int, count: int) -> None:
        """Send ``count`` bytes from ``start`` on. OSError where a file is not as it was."""
        end = start + count
        buffer = bytearray()
        for head, descriptor, size in self._pieces(start, end):
            try:
                buffer += head
                if descriptor is not None and size > _BIG:
                    out.write(buffer)
                    buffer = bytearray()
                    out.write_file(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), size)
                elif descriptor is not None:
                    data = os.read(descriptor, size)
                    if len(data) != size:
                        raise OSError("a file has become shorter")
                    buffer += data
            finally:
                if descriptor is not None:
                    os.close(descriptor)
            if len(buffer) >= _BUFFER:
                out.write(buffer)
                buffer = bytearray()
        out.write(buffer)

    def close(self) -> None:
        """Nothing is held."""

    def _pieces(self, start: int, end: int) -> Iterator[tuple[bytes, int | None, int]]:
        """Bytes, then so many of an open file at its position, which is then to be closed; of [start, end)."""
        at = bisect_right(self._starts, start) - 1
        for entry, begin in zip(self._entries[at:], self._starts[at:], strict=False):
            if begin >= end:
                return
            head = self._head(entry)
            yield _slice(head, start - begin, end - begin), None, 0
            size = entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
            if not size:
                continue
            begin += len(head)
            first, last = max(0, start - begin), min(size, end - begin)
            if first < last:
                descriptor = os.open(self._root + entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                os.lseek(descriptor, first, os.SEEK_SET)
                yield b"", descriptor, last - first
            begin += size
            yield _slice(bytes(ustar.padding(size)), start - begin, end - begin), None, 0
        begin = self._starts[-1]
        yield _slice(ustar.END, start - begin, end - begin), None, 0

    def _head(self, entry: Entry) -> bytes:
        mode = entry.status.st_mode
        if stat.S_ISREG(mode):
            return ustar.file_header(entry.name, entry.status.st_size, executable=bool(mode & 0o111))
        if stat.S_ISDIR(mode):
            return ustar.directory_header(entry.name)
        return ustar.symlink_header(entry.name, os.readlink(self._root + entry.name))  # noqa: PTH115  bytes


def _slice(data: bytes, start: int, end: int) -> bytes:
    return data[max(0, start) : max(0, end)]
