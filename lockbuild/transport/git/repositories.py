"""Git repositories: what their references mean, and what is in their commits, fetched no more than is needed.

Repositories are named by their canonical URL; where they are really asked is configuration (mirrors), and what
comes is verified by its object ids, here and not only by git: the ids of commit, trees and files are hashed again
whenever they are read. See gitprotocol-v2(5) for shallow and partial fetches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError
from lockbuild.events import Note, Reporter, silent
from lockbuild.transport.failures import NotFoundError, OfflineError
from lockbuild.transport.git import refs as git_refs
from lockbuild.transport.git.cache import CachedRepository
from lockbuild.transport.git.describe import Description, describe
from lockbuild.transport.git.fetch import GitFetch
from lockbuild.transport.git.objects import (
    Commit,
    Entry,
    Objects,
    absent,
    is_object_id,
    reading,
)
from lockbuild.transport.git.place import Surroundings
from lockbuild.transport.git.places import GitPlaces, key_of
from lockbuild.transport.git.process import Git, GitFailedError
from lockbuild.transport.git.refs import Revision

__all__ = ["Commit", "Contents", "Description", "Entry", "GitRepositories", "Revision"]

_Seen = dict[bytes, list[Entry]]


@dataclass(frozen=True, slots=True)
class Contents:
    """A commit with all its entries (without those of submodules), and the content of each tree by its id."""

    commit: Commit
    entries: tuple[Entry, ...]
    trees: Mapping[str, bytes]


class GitRepositories:
    """Reads repositories, which are kept below ``cache``. Thread-safe.

    ``offline`` leaves only what is cached, and file:// places. Every method raises FetchError where a repository
    cannot be read, IntegrityError where it is not sound, and names the URL.
    """

    def __init__(
        self, cache: Path, config: Config, *, offline: bool = False, report: Reporter = silent
    ) -> None:
        self._cache = cache
        self._network = config.network
        self._places = GitPlaces(config, offline=offline)
        self._report = report
        self._git = Git(cache)
        self._surroundings = Surroundings(config, cache)
        self._lock = threading.Lock()
        self._refs: dict[str, dict[str, str]] = {}  # by place
        self._contents: dict[tuple[str, str], Contents] = {}

    # References

    def refs(self, url: str) -> Mapping[str, str]:
        """Full name -> commit id of every tag (annotated ones peeled) and branch, as the first place says."""
        return self._places.ask(url, lambda place: self._refs_at(place, url))

    def resolve(self, url: str, rev: str) -> str:
        """The commit that ``rev`` means: a tag, else a branch, else a full commit id, taken as it is.

        ResolveError with what is like it where there is none.
        """
        return self.revision(url, rev).commit

    def revision(self, url: str, rev: str) -> Revision:
        """The same, with the reference that says so."""
        if is_object_id(rev):
            return Revision(rev, None)
        known: dict[str, str] = {}

        def look(place: str) -> Revision:
            refs = self._refs_at(place, url)
            known.update(refs)
            found = git_refs.find(refs, rev) or git_refs.find(self._named_at(place, url, rev), rev)
            if found is None:
                raise NotFoundError(f"there is no tag or branch {rev!r}", on=redact(place))
            return found

        try:
            return self._places.ask(url, look)
        except NotFoundError:
            if not known:
                raise
            raise git_refs.unknown(known, rev, redact(url)) from None

    # Commits

    def commit(self, url: str, commit: str) -> Commit:
        """The commit itself; fetches it with its trees where it is not cached."""
        with self._objects(url, commit) as objects:
            return objects.commit(commit)

    def time(self, url: str, commit: str) -> datetime:
        """When it was committed (aware, UTC)."""
        return self.commit(url, commit).time

    def read(self, url: str, commit: str, path: str) -> bytes | None:
        """One file of a commit (of a symbolic link its target); None where there is none. At most 64 MiB."""
        return self.read_all(url, commit, [path]).get(path)

    def read_all(self, url: str, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Those of the files that there are; all that is missing is fetched at once."""
        with self._objects(url, commit) as objects:
            tree = objects.commit(commit).tree
            seen: _Seen = {}
            found = {path: self._find(objects, tree, path, seen) for path in paths}
        files = {
            path: entry.object_id
            for path, entry in found.items()
            if entry is not None and entry.kind in ("file", "executable", "symlink")
        }
        self._fetch_blobs(url, commit, {oid: os.fsencode(path) for path, oid in files.items()})
        with self._objects(url, commit) as objects:
            data = dict(objects.several(dict.fromkeys(files.values()), "blob"))
        return {path: data[oid] for path, oid in files.items()}

    def list(self, url: str, commit: str, directory: str) -> list[str]:
        """The names of the files in a directory of a commit, sorted; empty where there is no such directory."""
        with self._objects(url, commit) as objects:
            tree = objects.commit(commit).tree
            if directory.strip("/"):
                entry = self._find(objects, tree, directory, {})
                if entry is None or entry.kind != "directory":
                    return []
                tree = entry.object_id
            return sorted(
                os.fsdecode(entry.path)
                for entry in objects.tree(tree)
                if entry.kind in ("file", "executable", "symlink")
            )

    def contents(self, url: str, commit: str) -> Contents:
        """Every entry of a commit, in no order; its files are not fetched."""
        with self._lock:
            known = self._contents.get((url, commit))
        if known is None:
            with self._objects(url, commit) as objects:
                about = objects.commit(commit)
                entries, trees = objects.all_trees(about.tree)
            known = Contents(about, tuple(entries), trees)
            with self._lock:
                self._contents[url, commit] = known
        return known

    @contextmanager
    def files(
        self, url: str, commit: str, entries: Sequence[Entry]
    ) -> Iterator[Iterator[tuple[int, Iterator[bytes]]]]:
        """Size and content of the file (or target of the link) of each entry, in order.

        Each content has to be read before the next; it is hashed on the way.
        """
        self._fetch_blobs(url, commit, {entry.object_id: entry.path for entry in entries})
        with self._objects(url, commit) as objects:
            stream = objects.stream(entry.object_id for entry in entries)
            yield ((size, chunks) for _, size, chunks in stream)

    def describe(self, url: str, commit: str) -> Description:
        """What ``git describe --tags`` says of the commit in a clone, with the tags that there are now."""
        repository = CachedRepository(self._cache, key_of(url), "history")
        with repository.filling(waiting=lambda: self._waits(url)):
            try:
                self._places.ask(url, lambda place: self._fetcher(place).history(repository, commit), commit)
            except OfflineError:
                if not repository.has(commit):
                    raise
            try:
                return describe(self._git, repository.path, commit)
            except GitFailedError as failure:
                raise FetchError(
                    f"git cannot describe {commit}: {failure.text.strip()}", on=redact(url)
                ) from None

    def configuration(self, data: bytes) -> Sequence[tuple[str, str]]:
        """Keys and values of a file in the format of git-config(1), as ``.gitmodules``; ValueError for any other."""
        try:
            listed = self._git.run(["config", "--file", "-", "--null", "--list", "--no-includes"], stdin=data)
        except GitFailedError as failure:
            raise ValueError(failure.text.strip()) from None
        pairs = [
            item.partition("\n") for item in listed.decode("utf-8", "surrogateescape").split("\0") if item
        ]
        return [(key, value) for key, _, value in pairs]

    def has(self, url: str, commit: str) -> bool:
        """Whether the commit and its trees are cached."""
        return CachedRepository(self._cache, key_of(url), "trees").has(commit)

    def stop(self) -> None:
        """End every git that runs, also from another thread; nothing can be fetched any more."""
        self._git.stop()

    # What is below

    def _find(self, objects: Objects, tree: str, path: str, seen: _Seen) -> Entry | None:
        found: Entry | None = None
        at = b""
        for part in os.fsencode(path.strip("/")).split(b"/"):
            if found is not None and found.kind != "directory":
                return None
            if at not in seen:
                seen[at] = objects.tree(found.object_id if found else tree, at)
            at = at + b"/" + part if at else part
            found = next((entry for entry in seen[at.rpartition(b"/")[0]] if entry.path == at), None)
            if found is None:
                return None
        return found

    @contextmanager
    def _objects(self, url: str, commit: str) -> Iterator[Objects]:
        repository = self._ensure(url, commit)
        with reading(self._git, repository.path, redact(url)) as objects:
            yield objects

    def _ensure(self, url: str, commit: str) -> CachedRepository:
        """The repository with the commit and its trees in it."""
        repository = CachedRepository(self._cache, key_of(url), "trees")
        if not repository.has(commit):
            with repository.filling(waiting=lambda: self._waits(url)):
                if not repository.has(commit):
                    self._places.ask(
                        url, lambda place: self._fetcher(place).commit(repository, commit), commit
                    )
        return repository

    def _fetch_blobs(self, url: str, commit: str, wanted: Mapping[str, bytes]) -> None:
        """Bring the files with these ids (and for messages their paths) into the cache."""
        repository = self._ensure(url, commit)
        if not absent(self._git, repository.path, wanted):
            return
        with repository.filling(waiting=lambda: self._waits(url)):

            def fetch(place: str) -> None:
                missing = absent(self._git, repository.path, wanted)
                if missing:
                    try:
                        self._fetcher(place).blobs(repository, commit, missing)
                    except NotFoundError as error:
                        lacking = next((oid for oid in missing if oid in error.what), None)
                        if lacking is None:
                            raise
                        path = os.fsdecode(wanted[lacking])
                        raise NotFoundError(f"it lacks {path} (object {lacking})", on=redact(place)) from None
                if left := absent(self._git, repository.path, missing):
                    path = os.fsdecode(wanted[left[0]])
                    raise NotFoundError(f"it lacks {path} (object {left[0]})", on=redact(place))

            self._places.ask(url, fetch, commit)

    def _fetcher(self, place: str) -> GitFetch:
        network = self._network
        return GitFetch(
            self._git,
            self._surroundings,
            place,
            timeout=network.timeout,
            retries=network.retries,
            report=self._report,
        )

    def _refs_at(self, place: str, url: str) -> dict[str, str]:
        with self._lock:
            known = self._refs.get(place)
        if known is None:
            known = git_refs.parse(self._fetcher(place).list(), redact(url))
            with self._lock:
                self._refs[place] = known
        return known

    def _named_at(self, place: str, url: str, rev: str) -> dict[str, str]:
        """A reference that is neither a tag nor a branch, by its full name."""
        if not rev.startswith("refs/"):
            return {}
        return git_refs.parse(self._fetcher(place).list(rev), redact(url))

    def places(self, url: str) -> Sequence[str]:
        """Where a repository is asked for, in order."""
        return self._places.of(url)

    def _waits(self, url: str) -> None:
        self._report(Note(f"waiting for another process that fetches {redact(url)}"))
