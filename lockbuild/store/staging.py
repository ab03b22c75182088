"""Private directories for work under way, which no other process trusts or keeps.

Each is locked by the process that works in it. When that process is gone, however it ended, the
lock is free, and the next one that writes to the store removes the directory.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.descent import remove
from lockbuild.interrupts import completed, deferred
from lockbuild.store.layout import Layout
from lockbuild.store.locking import is_at, take, take_now

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def staging(layout: Layout) -> Iterator[Path]:
    """An empty directory on the store's file system, removed at the end with all that is left in it."""
    made: list[tuple[Path, int]] = []
    try:
        with deferred():
            made.append(_create(layout))
        yield made[0][0]
    finally:
        completed(lambda: _remove_all(made))


def _remove_all(made: list[tuple[Path, int]]) -> None:
    for path, descriptor in made:
        try:
            remove(path)
        finally:
            made.clear()
            os.close(descriptor)


def sweep(layout: Layout) -> int:
    """Remove what dead processes left; how many directories that were."""
    removed = 0
    for path in layout.temporary.iterdir():
        try:
            descriptor = os.open(path, _OPEN)
        except OSError:  # it went meanwhile, or is another user's
            continue
        try:
            if take_now(descriptor) and is_at(descriptor, path):
                remove(path)
                removed += 1
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return removed


def _create(layout: Layout) -> tuple[Path, int]:
    while True:
        path = layout.temporary / secrets.token_hex(8)
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            continue  # swept before it could be locked
        take(descriptor)
        if is_at(descriptor, path):
            return path, descriptor
        os.close(descriptor)
