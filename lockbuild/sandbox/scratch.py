"""Private directories that are gone afterwards, whatever modes a build left in them."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lockbuild.descent import remove
from lockbuild.interrupts import completed, deferred
from lockbuild.sandbox.pidfd import wait_for_end

_PREFIX = "sandbox-"


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """A new directory below ``parent`` that only the caller can enter; removed at the end.

    Those that a killed process could not remove are removed by the next one: as long as a process lives it
    holds a lock (flock(2)) on its directory, which the kernel lets go however that ends.
    """
    parent.mkdir(parents=True, exist_ok=True)
    parent = parent.resolve()
    _remove_leftovers(parent)
    made: list[tuple[Path, int]] = []
    try:
        with deferred():
            made.append(_new_directory(parent))
        yield made[0][0]
    finally:
        completed(lambda: _remove_all(made))


def _new_directory(parent: Path) -> tuple[Path, int]:
    """A new directory and its lock."""
    # It gets the name that others look for when it is locked.
    new = Path(tempfile.mkdtemp(prefix="new-", dir=parent))
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # Where the file system has no locks, nobody can take the directory for a leftover either.
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
    return new.rename(parent / (_PREFIX + new.name.removeprefix("new-"))), lock


def _remove_all(made: list[tuple[Path, int]]) -> None:
    for path, lock in made:
        try:
            remove(path)
        finally:
            made.clear()
            os.close(lock)


def _remove_leftovers(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_sandbox(path)
            remove(path)
        except OSError:
            # In use; or another process removes it at this moment.
            continue
        finally:
            os.close(lock)


def _end_sandbox(directory: Path) -> None:
    """End the bwrap that still works in ``directory``, which nobody holds any more.

    bwrap binds its life to ours only after it has begun. Where we are killed before, its child waits for a word that
    never comes, or goes on building.
    """
    inside = os.fsencode(directory) + b"/"
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            handle = os.pidfd_open(int(entry.name))
            try:
                name, *arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if name.endswith(b"bwrap") and any(word.startswith(inside) for word in arguments):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    wait_for_end(handle)
            finally:
                os.close(handle)
