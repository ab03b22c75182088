"""Going through directories, and removing them, to any depth.

What a build or an archive leaves can be nested deeper than a path may be long, than the interpreter may recurse and
than a process may have files open. So one goes down and up by descriptors (openat(2)), and is led through no link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT = 32
"""Descriptors of directories that are kept for the way back; farther ones are found again as ``..``."""


def descend(
    root: Path,
    enter: Callable[[int, Sequence[str]], list[str]],
    leave: Callable[[int, str], None] | None = None,
    *,
    forced: bool = False,
) -> None:
    """Visit the directory ``root`` and what is below it, which nobody else changes meanwhile.

    ``enter`` gets each directory's descriptor and the names that lead to it from ``root``, and gives the names of its
    directories that are to be visited. ``leave`` gets a visited one's name, and the descriptor of the directory that
    has it. With ``forced`` directories that their owner may not read, write or enter are changed so that he may.
    """
    names: list[str] = []
    descriptor = _open(root, None, forced)
    levels = [_Level("", descriptor)]
    try:
        levels[0].pending = enter(descriptor, names)
        while True:
            level = levels[-1]
            if level.pending:
                name = level.pending.pop()
                names.append(name)
                descriptor = _open(name, level.descriptor, forced)
                levels.append(_Level(name, descriptor))
                if len(levels) > _KEPT:
                    levels[-_KEPT - 1].let_go()
                levels[-1].pending = enter(descriptor, names)
            elif len(levels) == 1:
                return
            else:
                levels[-2].find_from(level)
                levels.pop()
                os.close(level.descriptor)
                names.pop()
                if leave is not None:
                    leave(levels[-1].descriptor, level.name)
    finally:
        for level in levels:
            if level.descriptor >= 0:
                os.close(level.descriptor)


def remove(path: Path) -> None:
    """Remove a file or a whole tree, also one with directories that may not be written to.

    Does nothing where there is none.
    """
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        descend(path, _remove_files, lambda at, name: os.rmdir(name, dir_fd=at), forced=True)
        path.rmdir()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


def below(root: Path) -> list[tuple[str, os.stat_result]]:
    """Everything below the directory ``root``, by its path relative to that, with its lstat(2)."""
    found = []

    def enter(directory: int, names: Sequence[str]) -> list[str]:
        prefix = "".join(f"{name}/" for name in names)
        directories = []
        with os.scandir(directory) as listing:
            for entry in listing:
                found.append((prefix + entry.name, entry.stat(follow_symlinks=False)))
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
        return directories

    descend(root, enter)
    return found


def _remove_files(directory: int, names: Sequence[str]) -> list[str]:
    directories = []
    with os.scandir(directory) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            directories.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=directory)
    return directories


class _Level:
    """A directory on the way down; ``descriptor`` is -1 while it is not open."""

    __slots__ = ("_identity", "descriptor", "name", "pending")

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self.pending: list[str] = []
        self._identity = (0, 0)

    def let_go(self) -> None:
        if self.descriptor >= 0:
            status = os.fstat(self.descriptor)
            self._identity = (status.st_dev, status.st_ino)
            os.close(self.descriptor)
            self.descriptor = -1

    def find_from(self, below: _Level) -> None:
        if self.descriptor < 0:
            self.descriptor = os.open("..", _OPEN, dir_fd=below.descriptor)
            status = os.fstat(self.descriptor)
            if (status.st_dev, status.st_ino) != self._identity:
                raise OSError(f"{below.name} was moved while it was visited")


def _open(name: str | Path, directory: int | None, forced: bool) -> int:
    try:
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    except PermissionError:
        if not forced:
            raise
        os.chmod(name, 0o700, dir_fd=directory)
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    try:
        mode = os.fstat(descriptor).st_mode
        if forced and mode & 0o700 != 0o700:
            os.fchmod(descriptor, stat.S_IMODE(mode) | 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
