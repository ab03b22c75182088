"""Names inside a root file system that is looked at from outside: resolved as after ``chroot(2)``."""

from __future__ import annotations

import stat
from pathlib import Path

_MAX_LINKS = 40


def locate(root: Path, name: str) -> Path | None:
    """Where the file or directory ``name`` of ``root`` stands on the host, all links followed inside ``root``.

    None where nothing is there, a link dangles or links lead in a circle. Never leaves ``root``.
    """
    todo = name.split("/")[::-1]
    here: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del here[-1:]
            continue
        path = root.joinpath(*here, part)
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            links += 1
            if links > _MAX_LINKS:
                return None
            target = str(path.readlink())
            if target.startswith("/"):
                here = []
            todo.extend(reversed(target.split("/")))
        else:
            here.append(part)
    return root.joinpath(*here)
