"""What a store holds, and removing what nobody needs any more."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lockbuild.descent import below, remove
from lockbuild.model.digest import Digest
from lockbuild.store.layout import Layout
from lockbuild.store.locking import is_at, take_now
from lockbuild.store.memo import recall
from lockbuild.store.roots import drop_dead_roots
from lockbuild.store.staging import staging, sweep


@dataclass(frozen=True, slots=True)
class Stats:
    """How much stands in a store. Sizes in bytes; a file with several hard links counts once."""

    blobs: int
    blob_bytes: int
    trees: int
    tree_bytes: int
    partials: int
    partial_bytes: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed, or would remove; ``freed`` in bytes."""

    blobs: tuple[Digest, ...]
    trees: tuple[Digest, ...]
    freed: int


def measure(layout: Layout) -> Stats:
    """Count and add up."""
    blobs = [_size(layout.blob(digest)) for digest in digests(layout.blobs)]
    trees = [_size(layout.tree(digest)) for digest in digests(layout.trees)]
    partials = [_size(layout.partials / digest.hex) for digest in digests(layout.partials)]
    return Stats(len(blobs), sum(blobs), len(trees), sum(trees), len(partials), sum(partials))


def collect(
    layout: Layout, keep_blobs: Collection[Digest], keep_trees: Collection[Digest], *, dry_run: bool
) -> Collected:
    """Remove what is not kept: blobs, trees, their memos, downloads that nobody is at, links to locks
    that are gone, and what dead processes left."""
    blobs = [digest for digest in digests(layout.blobs) if digest not in keep_blobs]
    trees = [digest for digest in digests(layout.trees) if digest not in keep_trees]
    partials = [digest for digest in digests(layout.partials) if digest not in keep_blobs]
    freed = sum(_size(layout.blob(digest)) for digest in blobs)
    freed += sum(_size(layout.tree(digest)) for digest in trees)
    freed += sum(_size(layout.partials / digest.hex) for digest in partials)
    if not dry_run:
        kept = {*keep_trees, *keep_blobs}  # a memo leads to a tree, or to the blob of a source
        for key in digests(layout.derivations):
            if recall(layout, key) not in kept:
                remove(layout.derivations / key.hex)
        discard(layout, [layout.tree(digest) for digest in trees])
        discard(layout, [layout.blob(digest) for digest in blobs])
        for digest in partials:
            _drop_partial(layout.partials / digest.hex)
        drop_dead_roots(layout)
        sweep(layout)
    return Collected(tuple(blobs), tuple(trees), freed)


def discard(layout: Layout, paths: Collection[Path]) -> None:
    """Remove blobs or trees. Each loses its name before its contents: a killed process leaves no half one."""
    if not paths:
        return
    with staging(layout) as directory:
        for number, path in enumerate(paths):
            away = directory / str(number)
            try:
                path.rename(away)
            except FileNotFoundError:
                continue
            except PermissionError:  # to move a directory is to write to it
                path.chmod(0o700)
                path.rename(away)
            remove(away)


def digests(directory: Path) -> list[Digest]:
    """The entries of a directory whose names are digests, sorted."""
    found: list[Digest] = []
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return found
    for name in names:
        try:
            found.append(Digest(name))
        except ValueError:
            continue
    return found


def _drop_partial(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if take_now(descriptor) and is_at(descriptor, path):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    try:
        status = path.lstat()
        if not path.is_dir() or path.is_symlink():
            return status.st_size
    except FileNotFoundError:
        return 0
    total = 0
    seen: set[tuple[int, int]] = set()
    for _, status in below(path):
        if not stat.S_ISDIR(status.st_mode):
            if status.st_nlink > 1:
                inode = (status.st_dev, status.st_ino)
                if inode in seen:
                    continue
                seen.add(inode)
            total += status.st_size
    return total
