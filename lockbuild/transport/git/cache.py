"""A bare repository for each URL that was met: shallow, and filled with single objects as they are needed.

A commit is fetched with its trees and, where the server can leave them out, without its files; those follow one
by one or all together. The reference ``refs/commits/<id>`` says that a commit is there with all its trees. Commits
with their history but without trees, which `describe` needs, stand in a second repository beside it, so that
neither has to be deepened or refilled for the other.

Any number of processes may use a repository; whoever fetches holds its lock file. Objects are only ever added.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lockbuild.descent import remove
from lockbuild.errors import storage_error

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
COMMITS = "refs/commits/"


class CachedRepository:
    """The repository below ``cache`` for the canonical ``url``; ``kind`` is ``trees`` or ``history``."""

    def __init__(self, cache: Path, url: str, kind: str) -> None:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.rpartition("/")[2])[:40].strip("-.") or "repository"
        key = hashlib.sha256(url.encode()).hexdigest()[:16]
        self._directory = cache / f"{name}-{key}"
        self._kind = kind

    @property
    def path(self) -> Path:
        """The git directory."""
        return self._directory / f"{self._kind}.git"

    def has(self, commit: str) -> bool:
        """Whether the commit was fetched."""
        return (self.path / COMMITS / commit).is_file()

    @contextmanager
    def filling(self, *, waiting: Callable[[], None] | None = None) -> Iterator[Path]:
        """The git directory, made where it is missing, for this thread and process alone.

        ``waiting`` is called before waiting for another. FetchError where the disk does not let it.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(
                self._directory / f"{self._kind}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise storage_error(error, "cannot keep a git repository", on=str(self._directory)) from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._prepare()
            except OSError as error:
                raise storage_error(error, "cannot keep a git repository", on=str(self.path)) from error
            yield self.path
        finally:
            os.close(lock)

    def _prepare(self) -> None:
        if (self.path / "config").is_file():
            for stale in ("shallow.lock", "config.lock"):  # of a process that was killed: we hold the lock
                (self.path / stale).unlink(missing_ok=True)
            return
        for directory in ("objects/pack", "objects/info", COMMITS, "refs/tags", "info"):
            (self.path / directory).mkdir(parents=True, exist_ok=True)
        (self.path / "HEAD").write_text("ref: refs/heads/none\n")
        fresh = self.path / "config.new"
        fresh.write_text(_CONFIG)
        fresh.rename(self.path / "config")

    def discard(self) -> None:
        """Forget everything in it, whoever uses it; call it while `filling`."""
        away = self._directory / f"{self._kind}.away"
        _remove(away)
        if self.path.exists():
            self.path.rename(away)
            _remove(away)
        self._prepare()


def _remove(directory: Path) -> None:
    with suppress(OSError):
        remove(directory)
