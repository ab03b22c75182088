"""The store: the one object through which the rest of lockbuild reads and writes it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError
from lockbuild.events import Reporter, silent
from lockbuild.model.digest import Digest
from lockbuild.store.layout import Layout

if TYPE_CHECKING:
    from lockbuild.store.blob import NewBlob
    from lockbuild.store.collect import Collected, Stats
    from lockbuild.store.partial import Binding, Partial
    from lockbuild.store.roots import Root
    from lockbuild.store.trees import StagingTree
    from lockbuild.store.verify import Damage

_LOCK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_CHUNK = 1 << 20
_IN_USE = "store"


class Store:
    """A content-addressed store in the directory ``root``, made when something is first written.

    Safe for several threads and processes at once. To construct it, and to look something up, costs
    a system call or none. Whatever has a name in it is whole and durable: it gets its name by a
    rename when it is. Writing raises FetchError where the file system does not let it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._layout = Layout(root)
        self._preparing = Lock()
        self._prepared = False

    # Looking up

    def has_blob(self, digest: Digest) -> bool:
        """Whether the blob is there."""
        return os.path.isfile(self._layout.blob(digest))  # noqa: PTH113  fast

    def blob_path(self, digest: Digest) -> Path:
        """Where the blob stands; IntegrityError if it is not there."""
        if not self.has_blob(digest):
            raise _absent(digest, "blob")
        return self._layout.blob(digest)

    def verified_blob(self, digest: Digest) -> Path:
        """The same, hashed again. A damaged blob is removed, and is an IntegrityError."""
        from lockbuild.store.collect import discard
        from lockbuild.store.durable import storing
        from lockbuild.store.verify import file_digest

        path = self.blob_path(digest)
        with storing("cannot read a blob", path):
            found = file_digest(path)
        if found != digest:
            with self._writing("cannot remove a damaged blob"):
                discard(self._layout, [path])
            raise IntegrityError(
                f"its file in the store was damaged (digest {found}, not {digest}), and is now removed",
                on=str(path),
                hint="run `lockbuild sync` to fetch it again, and `lockbuild store verify` to look at the rest",
            )
        return path

    def has_tree(self, digest: Digest) -> bool:
        """Whether the tree is there."""
        return os.path.isdir(self._layout.tree(digest))  # noqa: PTH112  fast

    def tree_path(self, digest: Digest) -> Path:
        """The directory of the tree, never to be written to; IntegrityError if it is not there."""
        if not self.has_tree(digest):
            raise _absent(digest, "tree")
        return self._layout.tree(digest)

    def recall(self, key: Digest) -> Digest | None:
        """The tree that the recipe with the digest ``key`` gave, if that is remembered. The tree itself
        may have been collected since."""
        from lockbuild.store.memo import recall

        return recall(self._layout, key)

    # Writing

    def add_blob(self, data: bytes) -> Digest:
        """Store ``data``."""
        from lockbuild.store.durable import sync_directory, write_file
        from lockbuild.store.staging import staging

        digest = Digest.of(data)
        if not self.has_blob(digest):
            with self._writing("cannot store a blob"), staging(self._layout) as directory:
                path = directory / "blob"
                write_file(path, data)
                path.rename(self._layout.blob(digest))
                sync_directory(self._layout.blobs)
        return digest

    def add_file(self, path: Path, expected: Digest | None = None) -> Digest:
        """Store a copy of the file at ``path``; IntegrityError if its digest is not the ``expected`` one."""
        import hashlib

        from lockbuild.store.durable import sync_directory, write_all
        from lockbuild.store.staging import staging

        with self._writing("cannot store a file"), staging(self._layout) as directory:
            copy = directory / "blob"
            hasher = hashlib.sha256()
            with path.open("rb", buffering=0) as source, copy.open("xb", buffering=0) as target:
                while data := source.read(_CHUNK):
                    hasher.update(data)
                    write_all(target.fileno(), data)
                os.fchmod(target.fileno(), 0o444)
                digest = Digest(hasher.hexdigest())
                if expected is not None and digest != expected:
                    raise IntegrityError(f"the file has the digest {digest}, not {expected}", on=str(path))
                if self.has_blob(digest):
                    return digest
                os.fsync(target.fileno())
            copy.rename(self._layout.blob(digest))
            sync_directory(self._layout.blobs)
        return digest

    def new_blob(self) -> AbstractContextManager[NewBlob]:
        """A blob to write and commit, whose digest is not known before. A full disk in the body is a FetchError."""
        from lockbuild.store.blob import new_blob

        self._prepare()
        return new_blob(self._layout)

    def partial(
        self, wanted: Digest | Binding, *, waiting: Callable[[], None] | None = None
    ) -> AbstractContextManager[Partial]:
        """The download of a blob, to begin or to go on with, for this thread alone.

        ``wanted`` is its digest, or whatever else binds its bytes. ``waiting`` is called if another is at it,
        before waiting for that.
        """
        from lockbuild.store.partial import Binding, partial

        self._prepare()
        binding = wanted if isinstance(wanted, Binding) else Binding(wanted, wanted)
        return partial(self._layout, binding, waiting)

    def new_tree(self) -> AbstractContextManager[StagingTree]:
        """A tree to fill and commit. A full disk in the body is a FetchError."""
        from lockbuild.store.trees import new_tree

        self._prepare()
        return new_tree(self._layout)

    def remember(self, key: Digest, tree: Digest) -> None:
        """Note that the recipe with the digest ``key`` gave ``tree``."""
        from lockbuild.store.memo import remember

        with self._writing("cannot store a memo"):
            remember(self._layout, key, tree)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A private, empty directory on the store's file system, removed at the end with all in it."""
        from lockbuild.store.durable import filling
        from lockbuild.store.staging import staging

        self._prepare()
        with staging(self._layout) as directory, filling("cannot work in the store", self.root):
            yield directory

    # Locks

    @contextmanager
    def lock(self, name: str, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock ``name`` among all processes and threads that use this store.

        ``waiting`` is called if another has it, before waiting for that. Not reentrant.
        """
        if not _LOCK_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a lock")
        with self._held(f"{name}.lock", False, waiting):
            yield

    @contextmanager
    def in_use(self, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Keep `collect` and repairs from removing anything meanwhile; any number may do so at once."""
        with self._held(_IN_USE, True, waiting):
            yield

    # Keeping house

    def verify(self, report: Reporter = silent, *, repair: bool = False, workers: int = 2) -> list[Damage]:
        """Hash everything again; what is damaged, removed with ``repair`` (waits for users of the store)."""
        from lockbuild.store.collect import discard
        from lockbuild.store.verify import find_damage

        damaged = find_damage(self._layout, report, workers=workers)
        if damaged and repair:
            with self._held(_IN_USE, False, None), self._writing("cannot repair the store"):
                discard(self._layout, [damage.path for damage in damaged])
        return damaged

    def tree_damage(
        self, digest: Digest, *, thorough: bool, stopped: Callable[[], bool] = lambda: False
    ) -> str | None:
        """What is wrong with that tree, or None; removes nothing. Only ``thorough`` reads the files; without,
        whatever was written to, made, renamed or removed since is found by its time. ``stopped`` ends it early,
        with None."""
        from lockbuild.store.verify import StoppedError, tree_damage

        try:
            return tree_damage(self.tree_path(digest), thorough=thorough, stopped=stopped)
        except StoppedError:
            return None

    def stats(self) -> Stats:
        """What the store holds."""
        from lockbuild.store.collect import measure

        return measure(self._layout)

    def add_root(self, lock_path: Path, trees: Collection[Digest]) -> None:
        """Note that the lock at ``lock_path`` was last made into ``trees``; it is a root while it stands there."""
        from lockbuild.store.roots import add_root

        with self._writing("cannot note a lock"):
            add_root(self._layout, lock_path, trees)

    def has_root(self, lock_path: Path) -> bool:
        """Whether that lock was added."""
        from lockbuild.store.roots import has_root

        return has_root(self._layout, lock_path)

    def roots(self) -> list[Root]:
        """The locks that were added and are still there, or may be, sorted by path."""
        from lockbuild.store.roots import roots

        return roots(self._layout)

    def blobs(self) -> list[Digest]:
        """The digests of all blobs, sorted."""
        from lockbuild.store.collect import digests

        return digests(self._layout.blobs)

    def collect(
        self,
        needed: Callable[[], tuple[Collection[Digest], Collection[Digest]]],
        *,
        dry_run: bool = False,
        waiting: Callable[[], None] | None = None,
    ) -> Collected:
        """Remove all but the blobs and trees that are ``needed``; waits until nobody has the store `in_use`.

        ``needed`` is asked then, and not before: whoever had the store in use may have come to need something.
        Memos of kept trees stay, and partial downloads of kept blobs.
        """
        from lockbuild.store.collect import collect

        with self._held(_IN_USE, False, waiting):
            blobs, trees = needed()
            with self._writing("cannot clean the store"):
                return collect(self._layout, blobs, trees, dry_run=dry_run)

    @contextmanager
    def _held(self, name: str, shared: bool, waiting: Callable[[], None] | None) -> Iterator[None]:
        from lockbuild.store.durable import storing
        from lockbuild.store.locking import held

        self._prepare()
        with ExitStack() as lock:
            with storing("cannot lock the store", self.root):
                lock.enter_context(held(self._layout.locks / name, shared=shared, waiting=waiting))
            yield

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        from lockbuild.store.durable import storing

        self._prepare()
        with storing(what, self.root):
            yield

    def _prepare(self) -> None:
        """Before the first write: make the layout, and remove what dead processes left."""
        from lockbuild.store.durable import storing
        from lockbuild.store.staging import sweep

        with self._preparing:
            if not self._prepared:
                with storing("cannot open the store", self.root):
                    self._layout.prepare()
                    sweep(self._layout)
                self._prepared = True


def _absent(digest: Digest, kind: str) -> IntegrityError:
    return IntegrityError(
        f"the store has no such {kind}", on=str(digest), hint="run `lockbuild sync` to make it"
    )
