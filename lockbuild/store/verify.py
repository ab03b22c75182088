"""Hashes everything in a store again, on two processes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lockbuild.errors import LockbuildError
from lockbuild.events import Advanced, Finished, Reporter, Started
from lockbuild.interrupts import deferred
from lockbuild.model.digest import Digest
from lockbuild.store.layout import Layout
from lockbuild.store.memo import is_sound
from lockbuild.store.trees import canonical_mode

if TYPE_CHECKING:
    from concurrent.futures import Executor

_KEY = "store-verify"
Kind = Literal["blob", "tree", "memo"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing in the store that is not what its name says, and why."""

    kind: Kind
    path: Path
    reason: str


def find_damage(layout: Layout, report: Reporter, *, workers: int = 2) -> list[Damage]:
    """Everything in the store that is damaged, sorted by path. Reports one step for each blob and tree."""
    from concurrent.futures import as_completed

    # The largest first, so that the last one to run is a short one.
    work = sorted(_contents(layout), key=lambda item: _weight(*item), reverse=True)
    damaged: list[Damage] = []
    report(Started(_KEY, "verifying the store", total=len(work), unit="items"))
    try:
        with _pool(workers) as pool:
            with deferred(), _unseen_by_workers():
                checks = {pool.submit(check, kind, path): (kind, path) for kind, path in work}
            for done in as_completed(checks):
                kind, path = checks[done]
                reason = done.result()
                if reason is not None and os.path.lexists(path):
                    damaged.append(Damage(kind, path, reason))
                report(Advanced(_KEY, 1))
    finally:
        report(Finished(_KEY))
    return sorted(damaged, key=lambda item: item.path)


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Processes to work on; where an exception leaves the block they are ended, not waited for: a large tree takes
    seconds, and one that is only starting would look for what the pool takes away, and complain."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Not forked: the caller may have threads.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        pool.shutdown(cancel_futures=True)
        raise


@contextmanager
def _unseen_by_workers() -> Iterator[None]:
    """Workers that are started meanwhile never see an interrupt: the terminal sends it to them, too, but only this
    process has something to say then."""
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check(kind: Kind, path: Path) -> str | None:
    """What is wrong with it, or None."""
    try:
        wanted = Digest(path.name)
    except ValueError:
        return "its name is not a digest"
    try:
        if kind == "blob":
            return _check_blob(path, wanted)
        if kind == "tree":
            return _check_tree(path, wanted)
        return None if is_sound(path) else "it does not match its own checksum"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except LockbuildError as error:
        return str(error)


class StoppedError(Exception):
    """The check was called off."""


def tree_damage(path: Path, *, thorough: bool, stopped: Callable[[], bool]) -> str | None:
    """What is wrong with the tree at ``path``, or None. Without ``thorough`` it is not hashed: found is what
    anything leaves behind that writes to a file, or makes, renames or removes one. StoppedError once ``stopped``
    says so."""

    def step() -> None:
        if stopped():
            raise StoppedError

    try:
        return _check_tree(path, Digest(path.name), hashed=thorough, step=step)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except LockbuildError as error:
        return str(error)


def file_digest(path: Path) -> Digest:
    """The SHA-256 of a file's bytes."""
    import hashlib

    with path.open("rb", buffering=0) as file:
        return Digest(hashlib.file_digest(file, "sha256").hexdigest())


def _check_blob(path: Path, wanted: Digest) -> str | None:
    if not stat.S_ISREG(path.lstat().st_mode):
        return "it is not a file"
    found = file_digest(path)
    return None if found == wanted else f"its bytes have the digest {found}"


def _check_tree(
    path: Path, wanted: Digest, *, hashed: bool = True, step: Callable[[], None] | None = None
) -> str | None:
    from lockbuild.archive.canonical import entries_digest, scan

    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    entries = scan(path)
    if hashed:
        found = entries_digest(path, entries, step=step)
        if found != wanted:
            return f"its contents have the digest {found}"
    # The digest does not cover these, but a sandbox shows them.
    for name, entry in ((b".", status), *entries):
        mode = stat.S_IMODE(entry.st_mode)
        if mode != canonical_mode(entry.st_mode):
            return f"{os.fsdecode(name)} has the mode {mode:04o}, not {canonical_mode(entry.st_mode):04o}"
        if entry.st_mtime_ns:
            return f"{os.fsdecode(name)} was modified"
    return None


def _contents(layout: Layout) -> Iterator[tuple[Kind, Path]]:
    places: tuple[tuple[Kind, Path], ...] = (
        ("blob", layout.blobs),
        ("tree", layout.trees),
        ("memo", layout.derivations),
    )
    for kind, directory in places:
        if directory.is_dir():
            for path in directory.iterdir():
                yield kind, path


def _weight(kind: Kind, path: Path) -> int:
    if kind == "tree":
        return 1 << 62
    try:
        return path.lstat().st_size
    except OSError:
        return 0
