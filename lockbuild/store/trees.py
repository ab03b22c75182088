"""From a directory that somebody filled to a tree of the store.

In the store a tree looks on disk as its canonical tar says: modes 0644 and 0755, times the epoch,
so that a bind mount of it and an image layer made from it show the same.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.store.durable import filling, storing, sync_directory, sync_filesystem
from lockbuild.store.layout import Layout
from lockbuild.store.staging import staging

_MUCH = 128 << 20
"""Bytes that the disk may begin to write while more come."""
_SMALL = 64 << 20
"""Bytes that are hashed in less time than the disk may take to write what others wrote."""


class StagingTree:
    """A tree in the making: fill the directory ``path`` (entries rooted at ``/``), then `commit`."""

    def __init__(self, layout: Layout, path: Path) -> None:
        self.path = path
        self._layout = layout

    def commit(self, expected: Digest | None = None) -> Digest:
        """Name the tree by its digest, and give that back; it is durable then.

        Changes modes, times and owners on disk to the canonical ones. IntegrityError, and nothing is
        kept, where the digest is not the ``expected`` one or an entry has no place in a tree.
        """
        from concurrent.futures import ThreadPoolExecutor

        from lockbuild.archive.canonical import entries_digest, scan

        with storing("cannot store a tree", self.path), ThreadPoolExecutor(1) as pool:
            entries = scan(self.path, visit=make_canonical)
            make_canonical(os.fsencode(self.path), self.path.lstat())
            # The disk works while we hash; but a source directory is hashed at once, and is mostly there already.
            small = sum(entry.status.st_size for entry in entries) <= _SMALL
            synced = None if small else pool.submit(sync_filesystem, self.path)
            digest = entries_digest(self.path, entries)
            if expected is not None and digest != expected:
                raise IntegrityError(
                    f"the tree came out as {digest}, but {expected} is recorded",
                    hint="something that went into it is not what was locked; "
                    "if that is intended, lock again",
                )
            if synced is not None:
                synced.result()
            elif self._layout.tree(digest).exists():
                return digest
            else:
                sync_filesystem(self.path)
            self._name(digest)
        return digest

    @contextmanager
    def syncing(self) -> Iterator[Callable[[int], None]]:
        """Bring to the disk, while the body goes on, what it has written: it says how many bytes more that are."""
        from concurrent.futures import Future, ThreadPoolExecutor

        with ThreadPoolExecutor(1, thread_name_prefix="sync") as pool:
            running: Future[None] | None = None
            written = 0

            def wrote(size: int) -> None:
                nonlocal running, written
                written += size
                if written >= _MUCH and (running is None or running.done()):
                    written = 0
                    running = pool.submit(sync_filesystem, self.path)

            yield wrote
            if running is not None:
                with storing("cannot store a tree", self.path):
                    running.result()

    def commit_read(self, digest: Digest) -> None:
        """The same for a tree that `lockbuild.archive.canonical_reader` made out of its canonical tar, whose bytes
        had that digest: it is as they say, and need not be read again."""
        with storing("cannot store a tree", self.path):
            make_canonical(os.fsencode(self.path), self.path.lstat())
            if not self._layout.tree(digest).exists():
                sync_filesystem(self.path)
                self._name(digest)

    def _name(self, digest: Digest) -> None:
        target = self._layout.tree(digest)
        try:
            self.path.rename(target)
        except OSError as error:
            # Somebody else has made the same tree meanwhile: theirs is as good.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        sync_directory(target.parent)


@contextmanager
def new_tree(layout: Layout) -> Iterator[StagingTree]:
    """A tree to fill. What is not committed is removed at the end."""
    with staging(layout) as directory, filling("cannot fill a tree", layout.root):
        path = directory / "tree"
        path.mkdir()
        yield StagingTree(layout, path)


def canonical_mode(mode: int) -> int:
    """The permissions that an entry of that st_mode has in the store."""
    if stat.S_ISLNK(mode):
        return 0o777
    return 0o755 if stat.S_ISDIR(mode) or mode & 0o111 else 0o644


def make_canonical(path: bytes, status: os.stat_result) -> None:
    """Give an entry the mode, time and owner that it has in the store."""
    owner = os.geteuid()
    if owner == 0 and (status.st_uid or status.st_gid):
        os.chown(path, 0, 0, follow_symlinks=False)
    mode = canonical_mode(status.st_mode)
    if stat.S_IMODE(status.st_mode) != mode and not stat.S_ISLNK(status.st_mode):
        os.chmod(path, mode)  # noqa: PTH101  a name may be any bytes
    if status.st_mtime_ns:
        os.utime(path, ns=(0, 0), follow_symlinks=False)
