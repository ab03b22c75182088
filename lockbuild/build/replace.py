"""Putting a directory in the place of another in one step, so that nobody ever sees half of it, or none.

renameat2(2) with RENAME_EXCHANGE does that; where the file system or the C library has it not, there is a moment
without a directory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lockbuild.descent import remove

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def replace_directory(fresh: Path, destination: Path, *, check: Callable[[], None] = lambda: None) -> None:
    """Give the directory ``fresh`` the name ``destination``; what has that name is removed.

    ``check`` is called before anything is replaced, and may raise. Several processes may do this at once: the last
    one wins. Both paths are on one file system.
    """
    while True:
        try:
            fresh.rename(destination)
            return
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
        check()
        if _exchange(fresh, destination):
            with suppress(OSError):
                remove(fresh)
            return


def _exchange(fresh: Path, destination: Path) -> bool:
    """Let the two change names; False where there is no ``destination`` any more."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        names = os.fsencode(fresh), os.fsencode(destination)
        if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return True
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            return False
        if code not in _UNKNOWN:
            raise OSError(code, os.strerror(code), str(destination))
    return _exchange_in_two_steps(fresh, destination)


def _exchange_in_two_steps(fresh: Path, destination: Path) -> bool:
    old = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.old")
    try:
        destination.rename(old)
    except FileNotFoundError:
        return False
    try:
        fresh.rename(destination)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            old.rename(destination)
            raise
        with suppress(OSError):
            remove(old)  # another process has put its own there
        return False
    old.rename(fresh)
    return True
