"""The memo of a recipe: which tree came out of it, so that nothing is made twice.

A file of two lines: the tree's digest, and a checksum of that with the recipe's digest, so that a
damaged memo is no memo.
"""

from __future__ import annotations

import os
from pathlib import Path

from lockbuild.model.digest import Digest
from lockbuild.store.durable import write_file
from lockbuild.store.layout import Layout
from lockbuild.store.staging import staging


def recall(layout: Layout, key: Digest) -> Digest | None:
    """The tree that the recipe ``key`` gave, or None."""
    return _read(layout.derivations / key.hex)


def remember(layout: Layout, key: Digest, tree: Digest) -> None:
    """Note that the recipe ``key`` gave ``tree``, instead of what was noted before."""
    with staging(layout) as directory:
        path = directory / "memo"
        write_file(path, f"{tree}\n{_checksum(key.hex, tree)}\n".encode())
        path.rename(layout.derivations / key.hex)


def is_sound(path: Path) -> bool:
    """Whether the memo at ``path`` can be trusted."""
    return _read(path) is not None


def _read(path: Path) -> Digest | None:
    try:
        lines = path.read_text("ascii").split("\n")
        tree = Digest.parse(lines[0])
    except (OSError, ValueError):
        return None
    return tree if lines[1:] == [_checksum(os.fspath(path.name), tree), ""] else None


def _checksum(key: str, tree: Digest) -> str:
    return Digest.of(f"{key} {tree}".encode()).hex
