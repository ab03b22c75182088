"""The locks that keep things in the store: where each stands, and the trees that it was last made into.

A lock that is not materialised names no digest of its derived tools; what a sync made of it is noted here, so that
a collection does not take it away. ``roots/<hex of the path's digest>`` is JSON: ``{"lock": …, "trees": […]}``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lockbuild.model.digest import Digest
from lockbuild.store.durable import write_file
from lockbuild.store.layout import Layout
from lockbuild.store.staging import staging


@dataclass(frozen=True, slots=True)
class Root:
    """A lock that is there, and the trees that it was last made into."""

    lock: Path
    trees: tuple[Digest, ...]


def add_root(layout: Layout, lock_path: Path, trees: Collection[Digest]) -> None:
    """Note a lock and its trees, instead of what was noted for it before."""
    noted = _place(layout, lock_path)
    data = json.dumps({"lock": str(lock_path.absolute()), "trees": sorted(map(str, trees))}).encode()
    try:
        if noted.read_bytes() == data:
            return
    except FileNotFoundError:
        pass
    with staging(layout) as directory:
        path = directory / "root"
        write_file(path, data)
        path.rename(noted)


def has_root(layout: Layout, lock_path: Path) -> bool:
    """Whether something is noted for that lock."""
    return _place(layout, lock_path).is_file()


def roots(layout: Layout) -> list[Root]:
    """The roots whose lock is still there, or may be: where a directory is closed that is not known. Sorted by path."""
    return sorted(
        (root for _, root in _noted(layout) if root is not None and _is_there(root.lock)),
        key=lambda root: root.lock,
    )


def drop_dead_roots(layout: Layout) -> None:
    """Forget the locks that are not there any more, and notes that cannot be read."""
    for path, root in _noted(layout):
        if root is None or not _is_there(root.lock):
            path.unlink(missing_ok=True)


def _is_there(lock: Path) -> bool:
    try:
        return lock.exists()
    except OSError:
        return True


def _place(layout: Layout, lock_path: Path) -> Path:
    return layout.roots / Digest.of(os.fsencode(lock_path.absolute())).hex


def _noted(layout: Layout) -> list[tuple[Path, Root | None]]:
    try:
        paths = sorted(layout.roots.iterdir())
    except FileNotFoundError:
        return []
    return [(path, _read(path)) for path in paths]


def _read(path: Path) -> Root | None:
    try:
        value = json.loads(path.read_bytes())
        return Root(Path(value["lock"]), tuple(Digest.parse(text) for text in value["trees"]))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
