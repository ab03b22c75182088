"""Locks between processes, by flock(2): the kernel gives them back when a process dies.

A lock belongs to an open file, so two threads that each take one exclude each other as well.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, *, shared: bool = False, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file ``path`` (made where missing), alone or with others that hold it ``shared``.

    Waits for whoever has it; calls ``waiting`` once before that.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        take(descriptor, shared=shared, waiting=waiting)
        yield
    finally:
        os.close(descriptor)


def take(descriptor: int, *, shared: bool = False, waiting: Callable[[], None] | None = None) -> None:
    """Lock an open file or directory; it is free again when the descriptor is closed."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if waiting is not None:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
        else:
            return
    fcntl.flock(descriptor, how)


def take_now(descriptor: int) -> bool:
    """Lock it if nobody else has; whether that worked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one that ``path`` names; once locked, it may have gone."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))
