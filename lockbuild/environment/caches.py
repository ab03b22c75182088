"""What programs leave beside their files and no tree holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lockbuild.descent import descend, remove


def without_bytecode(root: Path) -> None:
    """Remove every ``__pycache__`` below ``root``: it holds times, and depends on the Python that made it."""

    def enter(directory: int, names: Sequence[str]) -> list[str]:
        found = []
        with os.scandir(directory) as listing:
            for entry in listing:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name == "__pycache__":
                        caches.append(root.joinpath(*names, entry.name))
                    else:
                        found.append(entry.name)
        return found

    caches: list[Path] = []
    descend(root, enter)
    for cache in caches:
        remove(cache)
