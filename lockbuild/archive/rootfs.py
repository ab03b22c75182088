"""Names inside a root file system that is looked at from outside: resolved as after ``chroot(2)``.

What a link says is true in that root only. Who asks the host for a path of a tree (``exists``, ``is_dir``, ``open``)
lets the host's own files answer, and is led out of the tree.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from lockbuild.errors import IntegrityError
from lockbuild.model.environment import MountedTree

_MAX_LINKS = 40
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def locate(root: Path | None, name: str, mounted: Mapping[str, Path] | None = None) -> Path | None:
    """Where the file or directory ``name`` of ``root`` stands on the host, all links followed inside ``root``.

    ``mounted`` has the host's directories that are seen at absolute names, in place of what ``root`` has there (if
    there is a ``root``). None where nothing is there, a link dangles or links lead in a circle, and for a directory
    that is there only because something is mounted below it. Never leaves ``root`` and what is mounted.
    """
    mounts = {tuple(_parts(place)): directory for place, directory in (mounted or {}).items()}
    todo = _parts(name)[::-1]
    here: list[str] = []
    links = 0
    there: Path | None = root
    while todo:
        part = todo.pop()
        if part == "..":
            del here[-1:]
            there = _place(root, mounts, here)
            continue
        there = _place(root, mounts, [*here, part])
        mode = _mode(there)
        if there is None or mode is None:
            there = None
            here.append(part)
            if not any(place[: len(here)] == tuple(here) for place in mounts):
                return None
        elif stat.S_ISLNK(mode):
            links += 1
            if links > _MAX_LINKS:
                return None
            target = os.readlink(there)  # noqa: PTH115  Path would tidy it
            if target.startswith("/"):
                here = []
            there = _place(root, mounts, here)
            todo.extend(reversed(_parts(target)))
        elif todo and not stat.S_ISDIR(mode):
            return None
        else:
            here.append(part)
    return there


def plain_directory(root: Path, name: str) -> Path | None:
    """Where the directory ``name`` of ``root`` stands, if it and all that lead to it are directories and no links."""
    at = root
    for part in _parts(name):
        at /= part
        if part == ".." or not stat.S_ISDIR(_mode(at) or 0):
            return None
    return at


def mounted_directory(tree: MountedTree) -> Path:
    """The directory of ``tree`` that stands at its mount. IntegrityError where it has none there, but a link or
    nothing: whoever mounts a link mounts what it leads to on this machine."""
    directory = plain_directory(tree.root, tree.mount)
    if directory is None:
        raise IntegrityError(
            f"the tree {tree.digest} has no directory {tree.mount}, or a link leads there",
            on=tree.name,
            hint="it is not what lockbuild makes: ask whoever recorded its digest in the lock, or lock again",
        )
    return directory


class View:
    """What a process in an environment of ``trees`` sees of them. IntegrityError as `mounted_directory`."""

    def __init__(self, trees: Iterable[MountedTree]) -> None:
        places = {tree.mount: mounted_directory(tree) for tree in trees}
        self._base = places.pop("/", None)
        self._mounted = places

    def locate(self, name: str) -> Path | None:
        """Where on the host stands what it finds at the absolute path ``name``; None where it finds nothing."""
        return locate(self._base, name, self._mounted)


def _mode(path: Path | None) -> int | None:
    try:
        return path.lstat().st_mode if path is not None else None
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        return None


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".")]


def _place(root: Path | None, mounts: Mapping[tuple[str, ...], Path], here: list[str]) -> Path | None:
    if mounts:
        for depth in range(len(here), 0, -1):
            directory = mounts.get(tuple(here[:depth]))
            if directory is not None:
                return directory.joinpath(*here[depth:])
    return root.joinpath(*here) if root is not None else None
