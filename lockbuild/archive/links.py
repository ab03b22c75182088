"""Where a symbolic link of an untrusted archive may lead: nowhere outside of its tree.

The rule needs no look at other links. A target whose ``..`` all come first climbs from the directory
in which the link really stands, so it cannot pass the root if it has no more of them than that
directory is deep; what follows goes down, through links for which the same holds. A ``..`` after a
name climbs from wherever that name leads: then everything up to it must be a real directory, which
only the finished tree can tell.
"""

from __future__ import annotations

import os
import stat


def fault_at_once(place: bytes, target: bytes) -> str | None:
    """Why the link at ``place`` (relative to the root, its directory a real one) must not lead to ``target``."""
    if target.startswith(b"/"):
        return "the symbolic link is absolute"
    climbs = 0
    for part in _parts(target):
        if part != b"..":
            break
        climbs += 1
    return "the symbolic link leads out of the archive" if climbs > place.count(b"/") else None


def needs_the_whole_tree(target: bytes) -> bool:
    """Whether `fault_in_tree` has to be asked as well."""
    parts = _parts(target)
    return any(part == b".." and parts[at] != b".." for at, part in enumerate(parts[1:]))


def fault_in_tree(root: bytes, place: bytes, target: bytes) -> str | None:
    """The same, for a target with a ``..`` after a name, below the finished tree at ``root``."""
    here = place.split(b"/")[:-1]
    descended = False
    for part in _parts(target):
        if part != b"..":
            here.append(part)
            descended = True
            continue
        if not here:
            return "the symbolic link leads out of the archive"
        if descended and not _are_directories(root, here):
            return "the symbolic link climbs from what is not a directory of the archive"
        here.pop()
    return None


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _are_directories(root: bytes, parts: list[bytes]) -> bool:
    try:
        return all(
            stat.S_ISDIR(os.lstat(root + b"/" + b"/".join(parts[:depth])).st_mode)
            for depth in range(1, len(parts) + 1)
        )
    except (FileNotFoundError, NotADirectoryError):
        return False
