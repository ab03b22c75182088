"""Files and trees of the store, hashed before they are served, and again whenever they have changed since.

Nothing is removed here, and nothing is written: a mirror may stand on a store that it only reads. What is damaged is
not served, and reported once.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.errors import FetchError, IntegrityError
from lockbuild.events import Note, Reporter
from lockbuild.model.digest import Digest
from lockbuild.serve.message import FOREVER, Answer, File, Outlet
from lockbuild.serve.tree_tar import TreeTar
from lockbuild.store import Store

_Stamp = tuple[int, int, int, int, int]


class Blobs:
    """Opens blobs and trees. Thread-safe: what several ask for is hashed once."""

    def __init__(self, store: Store, report: Reporter) -> None:
        self._store = store
        self._report = report
        self._lock = threading.Lock()
        self._busy: dict[Digest, threading.Lock] = {}
        self._sound: dict[Digest, _Stamp] = {}
        self._damaged: dict[Digest, _Stamp] = {}
        self._sound_trees: dict[Digest, _Stamp] = {}
        self._damaged_trees: dict[Digest, _Stamp] = {}

    def has(self, digest: Digest) -> bool:
        """Whether the blob is there; it may be damaged."""
        return self._store.has_blob(digest)

    def open(self, digest: Digest) -> File | None:
        """The blob; None where it is not there, or not what its name says."""
        try:
            path = self._store.blob_path(digest)
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (IntegrityError, OSError):
            return None
        try:
            sound = self._is_sound(digest, descriptor, path)
            if sound:
                return File(descriptor, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def answer(self, digest: Digest) -> Answer | None:
        """The blob as an answer that never changes."""
        file = self.open(digest)
        return None if file is None else Answer(file, etag=digest.hex).having(Cache_Control=FOREVER)

    def tree_answer(self, digest: Digest) -> Answer | None:
        """The canonical tar of the tree as an answer that never changes."""
        tree = self.tree(digest)
        if tree is None:
            return None
        return Answer(_KeptTar(TreeTar(tree), self), etag=digest.hex).having(Cache_Control=FOREVER)

    def read(self, digest: Digest, limit: int) -> bytes | None:
        """The bytes of a small blob; None where there is no such one."""
        file = self.open(digest)
        if file is None:
            return None
        try:
            return os.pread(file.descriptor, limit, 0) if file.size <= limit else None
        finally:
            file.close()

    def has_tree(self, digest: Digest) -> bool:
        """Whether the tree is there; it may be damaged."""
        return self._store.has_tree(digest)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Nothing is collected meanwhile, where the store can be told so."""
        held = self._store.in_use()
        try:
            held.__enter__()
        except FetchError:  # not ours to write to; whoever collects there does not know of us
            yield
            return
        try:
            yield
        finally:
            held.__exit__(None, None, None)

    def tree(self, digest: Digest) -> Path | None:
        """The directory of a tree, hashed when it is first asked for, and looked at each time; None as `open`."""
        with self._alone(digest):
            try:
                path = self._store.tree_path(digest)
                stamp = _stamp_of(path.stat())
            except (IntegrityError, OSError):
                return None
            if self._damaged_trees.get(digest) == stamp:
                return None
            fault = self._store.tree_damage(digest, thorough=self._sound_trees.get(digest) != stamp)
            if fault is None:
                self._sound_trees[digest] = stamp
                return path
            self._damaged_trees[digest] = stamp
        self._complain("tree", digest, fault)
        return None

    def _is_sound(self, digest: Digest, descriptor: int, path: Path) -> bool:
        with self._alone(digest):
            stamp = _stamp(descriptor)
            if self._sound.get(digest) == stamp:
                return True
            if self._damaged.get(digest) == stamp:
                return False
            with os.fdopen(os.dup(descriptor), "rb", buffering=0) as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found == digest.hex and _stamp(descriptor) == stamp:
                self._sound[digest] = stamp
                return True
            self._damaged[digest] = stamp
        self._complain("blob", digest, f"its bytes have the digest sha256:{found}")
        return False

    def _complain(self, kind: str, digest: Digest, fault: str) -> None:
        self._report(
            Note(
                f"the {kind} {digest} of the store is damaged ({fault}) and is not served; run "
                "`lockbuild store verify --repair`, then `lockbuild sync`",
                "warning",
            )
        )

    @contextmanager
    def _alone(self, digest: Digest) -> Iterator[None]:
        with self._lock:
            lock = self._busy.setdefault(digest, threading.Lock())
        with lock:
            yield


class _KeptTar:
    """A tree's tar; nothing is collected from the store while it is sent."""

    def __init__(self, tar: TreeTar, blobs: Blobs) -> None:
        self._tar = tar
        self._blobs = blobs
        self.size: int = tar.size

    def send(self, out: Outlet, start: int, count: int) -> None:
        with self._blobs.keeping():
            self._tar.send(out, start, count)

    def close(self) -> None:
        pass


def _stamp(descriptor: int) -> _Stamp:
    return _stamp_of(os.fstat(descriptor))


def _stamp_of(status: os.stat_result) -> _Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
