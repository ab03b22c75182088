"""Making written data last.

A name in the store is a promise, also after a power failure: what a rename makes visible has been
brought to the disk before. For a tree that is one syncfs(2), not an fsync(2) for each of tens of
thousands of files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.errors import storage_error

_SYNC_FILE_RANGE_WRITE = 2
_MUCH = 16 << 20
"""Bytes that the disk is told of at once."""


@contextmanager
def storing(what: str, on: Path) -> Iterator[None]:
    """Turn an operating system error of the body into the FetchError that says ``what`` did not work."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, what, on=str(on)) from error


@contextmanager
def filling(what: str, on: Path) -> Iterator[None]:
    """The same for a full disk or an exceeded quota only, around code that may fail in its own ways."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise storage_error(error, what, on=str(on)) from error


def write_file(path: Path, data: bytes, *, mode: int = 0o444) -> None:
    """Write a new file and bring it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """write(2) until all of ``data`` is written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class WriteBehind:
    """Lets the disk work while a large file is still being written, so that little is left for the fsync(2) at its end.

    sync_file_range(2): it only begins, and promises nothing.
    """

    def __init__(self, descriptor: int) -> None:
        import ctypes

        self._begin = getattr(ctypes.CDLL(None), "sync_file_range", None)
        self._descriptor = descriptor
        self._begun = 0
        self._written = 0

    def wrote(self, size: int) -> None:
        """So many more bytes stand in the file."""
        self._written += size
        if self._begin is None or self._written - self._begun < _MUCH:
            return
        import ctypes

        start, length = ctypes.c_int64(self._begun), ctypes.c_int64(self._written - self._begun)
        self._begin(self._descriptor, start, length, ctypes.c_uint(_SYNC_FILE_RANGE_WRITE))
        self._begun = self._written


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_filesystem(path: Path) -> None:
    """Bring everything written to the file system of the directory ``path`` to the disk."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(descriptor)
