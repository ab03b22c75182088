"""Reading files that somebody else put there, of which none may stop us.

Opening a pipe waits for its writer and a device may have no end, so only regular files are read, and of them no more
than is sensible.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST = 64 << 20
"""Bytes that a text written by people or by lockbuild may have. The largest lock of the examples has less than 1 MB."""


def open_regular(path: Path, *, buffering: int = -1) -> BinaryIO:
    """A regular file, opened for reading (as by `open`); never waits. OSError where it is something else, whose
    ``strerror`` says so."""
    try:
        # O_NONBLOCK means nothing to a regular file.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _irregular(path) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise _irregular(path)
        return os.fdopen(descriptor, "rb", buffering)
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a regular file. OSError where it cannot be read, is something else, or has more than ``largest``
    bytes; its ``strerror`` says so."""
    with open_regular(path) as file:
        parts = []
        left = largest + 1
        while left and (data := file.read(min(left, 1 << 20))):
            parts.append(data)
            left -= len(data)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", str(path))
    return b"".join(parts)


def read_regular_text(path: Path, errors: str = "strict") -> str:
    """The UTF-8 text of a regular file, its lines ended by line feeds. OSError as `read_regular`; UnicodeDecodeError
    where ``errors`` is "strict"."""
    return read_regular(path).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def _irregular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file", str(path))
