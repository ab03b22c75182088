"""What the known locks name: the whole of what this mirror has to do with.

Every request ends in a look-up in one of these tables, so that no path of a client ever becomes one of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, Source
from lockbuild.store import Store
from lockbuild.store.sources import known_blob


@dataclass(frozen=True, slots=True)
class KnownLock:
    """A lock, and what it is called here: a name that stands in URLs, of no other lock, and of no machine."""

    name: str
    lock: Lock


class Location(NamedTuple):
    """A URL as a key: its query as it is written, the rest decoded. No credentials."""

    scheme: str
    host: str
    path: str
    query: str = ""

    @classmethod
    def of(cls, url: str) -> Location:
        """ValueError where it is no URL."""
        parts = urlsplit(url)
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        return cls(parts.scheme, host, unquote(parts.path).strip("/"), parts.query)

    @property
    def repository(self) -> Location:
        """One key for the ways to write a repository's URL."""
        return Location(self.scheme, self.host, self.path.removesuffix(".git").rstrip("/"))


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file of the Python index."""

    name: str
    digest: Digest


@dataclass
class Repository:
    """A git repository: the ``commits`` of it that locks name, each with the references that it was."""

    url: str
    commits: dict[str, set[str]] = field(default_factory=dict)


class Library:
    """The tables. Presence in the store is looked up when something is asked for.

    ``trees`` are those whose digest a lock records, but for directories of its project.
    """

    def __init__(self, locks: Iterable[KnownLock], store: Store) -> None:
        self.locks = tuple(locks)
        self.by_sha256: set[Digest] = set()
        self.trees: set[Digest] = set()
        self.by_sha512: dict[str, Digest] = {}
        self.pool: dict[str, Digest] = {}
        self.npm: dict[str, Digest] = {}
        self.urls: dict[Location, Digest] = {}
        self.wheels: dict[str, dict[tuple[str, Digest], Wheel]] = {}
        self.repositories: dict[Location, Repository] = {}
        for known in self.locks:
            references = {
                tree.pins["commit"]: tree.pins["ref"]
                for tree in known.lock.trees
                if {"commit", "ref"} <= tree.pins.keys()
            }
            self.trees.update(
                tree.digest for tree in known.lock.trees if tree.digest is not None and tree.unpack != "path"
            )
            for source in known.lock.sources:
                self._add(source, known_blob(store, source), references)

    def __bool__(self) -> bool:
        return bool(self.locks)

    def _add(self, source: Source, digest: Digest | None, references: Mapping[str, str]) -> None:
        kind, _, name = source.purl.removeprefix("pkg:").partition("/")
        if source.commit is not None and source.url is not None:
            self._add_commit(source.url, source.commit, references)
        if digest is None:
            return
        self.by_sha256.add(digest)
        if source.sha512 is not None:
            self.by_sha512[source.sha512] = digest
        if source.path is not None:
            if kind == "deb":
                self.pool.setdefault(source.path, digest)
            elif kind == "npm":
                self.npm.setdefault(source.path, digest)
            elif kind == "pypi":
                wheel = Wheel(source.path, digest)
                self.wheels.setdefault(_project(name), {}).setdefault((wheel.name, digest), wheel)
        elif source.url is not None and source.commit is None and source.url.startswith(("http:", "https:")):
            self.urls.setdefault(Location.of(source.url), digest)

    def _add_commit(self, url: str, commit: str, references: Mapping[str, str]) -> None:
        if not url.startswith(("http:", "https:")):
            return
        repository = self.repositories.setdefault(Location.of(url).repository, Repository(url))
        names = repository.commits.setdefault(commit, set())
        if commit in references:
            names.add(references[commit])

    @property
    def origins(self) -> list[tuple[str, str]]:
        """Scheme and host of everything that is served by its URL, sorted."""
        return sorted({(where.scheme, where.host) for where in (*self.urls, *self.repositories)})


def _project(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(unquote(name.partition("@")[0]))
