"""Private directories that are gone afterwards, whatever modes a build left in them."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
    # It gets the name that others look for when it is locked.
    new = Path(tempfile.mkdtemp(prefix="new-", dir=parent))
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Where the file system has no locks, nobody can take the directory for a leftover either.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        path = new.rename(parent / (_PREFIX + new.name.removeprefix("new-")))
        try:
            yield path
        finally:
            remove(path)
    finally:
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
                    select.select([handle], [], [])
            finally:
                os.close(handle)


def remove(path: Path) -> None:
    """Remove the tree at ``path``, also where its directories forbid that."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        open_up(path)
        shutil.rmtree(path)


def open_up(path: Path) -> None:
    """Let the owner read, write and enter every directory below ``path``, and read every file."""
    path.chmod(0o700)
    for parent, directories, files in os.walk(path):
        for name in directories:
            at = os.path.join(parent, name)  # noqa: PTH118  Path objects would double the time of a walk
            if not os.path.islink(at):  # noqa: PTH114
                mode = os.lstat(at).st_mode & 0o777
                if mode & 0o700 != 0o700:
                    os.chmod(at, mode | 0o700)  # noqa: PTH101
        for name in files:
            at = os.path.join(parent, name)  # noqa: PTH118
            mode = os.lstat(at).st_mode
            if mode & 0o400 == 0 and not os.path.islink(at):  # noqa: PTH114
                os.chmod(at, (mode & 0o777) | 0o400)  # noqa: PTH101
