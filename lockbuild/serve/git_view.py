"""A repository that has the commits which known locks name, and nothing else: what git may serve of a cached one.

git gives whoever knows an object's id that object, whether a reference leads to it or not (gitprotocol-v2(5)). So
what is served is not the cache itself, where commits of other locks are, but a repository of its own with one pack of
just the wanted commits and their trees and files. They stand there without their history (shallow), as in the cache.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lockbuild.events import Note, Reporter
from lockbuild.serve.library import Repository
from lockbuild.transport.git.cache import CachedRepository
from lockbuild.transport.git.places import key_of
from lockbuild.transport.git.process import Git, GitFailedError

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


@dataclass(frozen=True, slots=True)
class View:
    """A repository to serve: its ``commits``, and how many of their ``files`` are ``missing`` (left out, or never
    fetched)."""

    path: Path
    commits: tuple[str, ...]
    missing: int


class GitViews:
    """Makes views below ``scratch`` of what is in ``cache`` when they are first asked for. Thread-safe."""

    def __init__(self, cache: Path, scratch: Path, report: Reporter) -> None:
        self.git = Git(scratch / "git")
        self._cache = cache
        self._scratch = scratch
        self._report = report
        self._lock = threading.Lock()
        self._views: dict[tuple[str, tuple[str, ...], tuple[str, ...]], View | None] = {}

    def present(self, repository: Repository) -> list[str]:
        """Those of its commits that are in the cache, sorted."""
        cached = CachedRepository(self._cache, key_of(repository.url), "trees")
        return sorted(commit for commit in repository.commits if cached.has(commit))

    def view(self, repository: Repository) -> View | None:
        """What can be served of it; None where no commit of it is there."""
        commits = tuple(self.present(repository))
        if not commits:
            return None
        names = tuple(sorted({name for commit in commits for name in repository.commits[commit]}))
        key = (key_of(repository.url), commits, names)
        with self._lock:
            if key not in self._views:
                self._views[key] = self._made(repository, commits, self._scratch / f"{len(self._views)}.git")
            return self._views[key]

    def stop(self) -> None:
        """End every git."""
        self.git.stop()

    def _made(self, repository: Repository, commits: tuple[str, ...], path: Path) -> View | None:
        cached = CachedRepository(self._cache, key_of(repository.url), "trees").path
        for directory in ("objects/pack", "objects/info", "refs/tags"):
            (path / directory).mkdir(parents=True, exist_ok=True)
        (path / "config").write_text(_CONFIG)
        try:
            listed = self.git.run(
                ["rev-list", "--objects", "--no-object-names", "--missing=print", "--no-walk", "--stdin"],
                repository=cached,
                stdin="".join(f"{commit}\n" for commit in commits).encode(),
            )
            lines = listed.decode("ascii").split()
            objects = [line for line in lines if not line.startswith("?")]
            self.git.run(
                ["pack-objects", "--quiet", "--threads=1", str(path / "objects/pack/pack")],
                repository=cached,
                stdin="".join(f"{oid}\n" for oid in objects).encode(),
            )
        except GitFailedError as failure:
            self._report(Note(f"{repository.url} cannot be served: {failure.text.strip()[:500]}", "warning"))
            return None
        (path / "shallow").write_text("".join(f"{commit}\n" for commit in commits))
        (path / "packed-refs").write_text(_references(repository, commits))
        (path / "HEAD").write_text(f"{commits[0]}\n")
        return View(path, commits, len(lines) - len(objects))


def _references(repository: Repository, commits: Iterable[str]) -> str:
    """Every commit under its own name and those that locks say it had: packed-refs, sorted."""
    references = {f"refs/commits/{commit}": commit for commit in commits}
    for commit in commits:
        for name in repository.commits[commit]:
            if name.startswith(("refs/tags/", "refs/heads/")):
                references[name] = commit
    return "# pack-refs with: sorted\n" + "".join(
        f"{commit} {name}\n" for name, commit in sorted(references.items())
    )


def ended(process: subprocess.Popen[bytes]) -> str:
    """What a git that has ended said."""
    assert process.stderr is not None
    return process.stderr.read(4096).decode("utf-8", "replace").strip()
