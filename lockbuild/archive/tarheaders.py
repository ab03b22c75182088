"""What a header of somebody's tar may say before `tarfile` acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import tarfile

_LONGEST = 1 << 20
"""Bytes: a long name or pax header of more than this is an attack on memory, not a name."""
_EXTENSIONS = (b"L", b"K", b"x", b"X", b"g")


def checked_headers(refuse: Callable[[str], NoReturn]) -> tuple[type[tarfile.TarInfo], Callable[[], bool]]:
    """What to open a tar with as ``tarinfo``, and whether the end of that tar was seen. ``refuse`` raises, for what is
    wrong with a header."""
    import tarfile

    ended = False

    class Header(tarfile.TarInfo):
        """Looks at each header block."""

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
            nonlocal ended
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                ended = True
            header = super().frombuf(buf, encoding, errors)
            if header.size < 0:
                refuse("an entry has a negative size")
            if header.type in _EXTENSIONS and header.size > _LONGEST:
                refuse("an entry has a header of more than a megabyte")
            return header

    return Header, lambda: ended
