"""The canonical tar of entries that are nowhere on a disk: the same bytes as `canonical` gives for a directory.

Whoever writes one gives the entries in canonical order; see `canonical` for what that is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import BinaryIO

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError


class CanonicalTar:
    """Writes a canonical tar to ``out``. Names are relative, without ``.``, ``..`` or a trailing slash.

    Every method raises IntegrityError for an entry that a layer cannot hold (a name that starts with ``.wh.``), and
    ValueError for one that is out of order.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._last = b""

    def directory(self, name: bytes) -> None:
        """A directory."""
        self._next(name)
        self._out.write(ustar.directory_header(name))

    def symlink(self, name: bytes, target: bytes) -> None:
        """A symbolic link."""
        self._next(name)
        self._out.write(ustar.symlink_header(name, target))

    def file(self, name: bytes, size: int, chunks: Iterable[bytes], *, executable: bool = False) -> None:
        """A file of ``size`` bytes, which ``chunks`` has; ValueError where they are more or fewer."""
        self._next(name)
        self._out.write(ustar.file_header(name, size, executable=executable))
        left = size
        for chunk in chunks:
            left -= len(chunk)
            self._out.write(chunk)
        if left:
            raise ValueError(f"{os.fsdecode(name)}: {size} bytes were announced, {size - left} came")
        self._out.write(bytes(ustar.padding(size)))

    def finish(self) -> None:
        """What ends the tar."""
        self._out.write(ustar.END)

    def _next(self, name: bytes) -> None:
        if name <= self._last:
            raise ValueError(f"{os.fsdecode(name)} comes after {os.fsdecode(self._last)}")
        self._last = name
        if name.rpartition(b"/")[2].startswith(b".wh."):
            raise IntegrityError(
                "its name would delete files when it is a layer (a whiteout)",
                on=repr(os.fsdecode(name))[1:-1],
            )
