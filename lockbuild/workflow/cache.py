"""Registries as a cache: asked before anything is fetched or made, given what had to be.

Only what the lock binds is ever taken: a tree whose digest it records, a file whose SHA-256 or SHA-512 it has. Of
what a recipe gives, a cache could only claim something. So a lock that records no digests gets its sources from
there, and makes its trees itself.

A cache is a help and no need (`lockbuild.workflow.helpful`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lockbuild.errors import LockbuildError
from lockbuild.events import Note, Reporter
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.outcome import BuildOutcome
from lockbuild.model.platform import Platform
from lockbuild.model.reference import Reference
from lockbuild.oci.cache import CacheRepository
from lockbuild.store.sources import has_source
from lockbuild.transport.transfers import Transfers
from lockbuild.workflow.helpful import HelpfulPlaces

if TYPE_CHECKING:
    from lockbuild.config import Config
    from lockbuild.store import Store
    from lockbuild.transport.registry.registries import Registries

T = TypeVar("T")

UNPACKED_AT_ONCE = 2
"""Trees at once: one decompresses or hashes while the other waits for the network or the disk."""


def missing_trees(store: Store, trees: Iterable[LockedTree]) -> list[LockedTree]:
    """Those that the lock records and the store lacks, each once. Directories of the project are not among them."""
    found = {
        tree.digest: tree
        for tree in trees
        if tree.digest is not None and tree.unpack != "path" and not store.has_tree(tree.digest)
    }
    return list(found.values())


def missing_sources(store: Store, sources: Iterable[Source]) -> list[Source]:
    """Those that the store lacks, each once. Files of the project are not among them."""
    found = {
        source.identity: source
        for source in sources
        if source.patch is None and not has_source(store, source)
    }
    return list(found.values())


class Cache:
    """The caches of the configuration, for one command. Thread-safe."""

    def __init__(
        self, config: Config, registries: Registries, store: Store, report: Reporter, *, offline: bool
    ) -> None:
        self._connections = config.network.connections
        self._store = store
        self._report = report
        self._offline = offline
        self._transfers = Transfers()
        self._places: HelpfulPlaces[CacheRepository] = HelpfulPlaces("cache", self._transfers, report)
        self._lock = threading.Lock()
        self._reached: set[CacheRepository] = set()
        self._fetched: dict[Digest, Source] = {}
        known = {
            name: CacheRepository(registries, Reference.parse(name), store, self._transfers, report)
            for name in (*config.cache.read, config.cache.write)
            if name is not None
        }
        self._reading = [known[name] for name in config.cache.read]
        self._writing = None if config.cache.write is None else known[config.cache.write]

    def fetch_trees(self, trees: Iterable[LockedTree]) -> None:
        """Make what it can of the trees that the store lacks and the lock records."""

        def fetch(tree: LockedTree) -> None:
            digest = tree.digest
            assert digest is not None
            self._first(tree.name, lambda cache: cache.fetch_tree(digest, tree.name))

        self._each("trees", missing_trees(self._store, trees), fetch, UNPACKED_AT_ONCE)

    def fetch_sources(self, sources: Iterable[Source]) -> None:
        """Bring what it can of the sources that the store lacks into it."""
        missing = missing_sources(self._store, sources)
        self._each(
            "sources",
            missing,
            lambda source: self._first(source.purl, lambda cache: cache.fetch_source(source)),
            self._connections,
        )
        self._fetched.update((source.identity, source) for source in missing_sources(self._store, missing))

    def fetch_files(self, files: Iterable[tuple[Digest, int, str]]) -> bool:
        """Whether the store has all of the files afterwards: digest, size, and what people call each."""
        for digest, size, name in files:
            if not self._store.has_blob(digest):
                self._first(name, lambda cache, d=digest, s=size, n=name: cache.fetch_file(d, s, n))  # type: ignore[misc]
            if not self._store.has_blob(digest):
                return False
        return True

    def keep(self, made: Iterable[tuple[Digest, str]]) -> None:
        """After a success: put the trees that were ``made`` (digest and name), and the sources that were fetched,
        where the user wants them. Never fails."""
        trees = list(made)
        sources = [source for source in self._fetched.values() if has_source(self._store, source)]
        self._fetched.clear()
        if (not trees and not sources) or not self._may_write():
            return

        def push(tree: tuple[Digest, str]) -> None:
            digest, name = tree
            self._write(lambda cache: cache.push_tree(digest, self._store.tree_path(digest), name))

        self._transfers.each(trees, push, connections=UNPACKED_AT_ONCE, name="cache-trees")
        self._transfers.each(
            sources,
            lambda source: self._write(lambda cache: cache.push_source(source)),
            connections=self._connections,
            name="cache-sources",
        )

    def keep_outputs(self, outcome: BuildOutcome, platform: Platform, directory: Path) -> None:
        """After a build: put its outputs, which stand in ``directory``, where the user wants them. Never fails."""
        if outcome.reproducible and self._may_write():
            self._write(
                lambda cache: cache.push_outputs(
                    outcome.input, outcome.target, str(platform), outcome.files, directory
                )
            )

    def _each(self, what: str, items: Sequence[T], work: Callable[[T], None], connections: int) -> None:
        if items and self._reading and not self._offline:
            self._transfers.each(items, work, connections=connections, name=f"cache-{what}")

    def _first(self, name: str, fetch: Callable[[CacheRepository], bool]) -> None:
        """From the first of the caches that has it; from none offline."""
        if not self._offline:
            self._places.first((cache for cache in self._reading if self._useful(cache)), name, fetch)

    def _may_write(self) -> bool:
        cache = self._writing
        if cache is None or self._offline or not self._useful(cache):
            return False
        try:
            if cache.has_credentials():
                return True
        except LockbuildError as error:
            self._places.pass_over(cache, error.what)
            return False
        self._report(
            Note(f"nothing is put into the cache {cache}: there are no credentials for its registry")
        )
        return False

    def _write(self, push: Callable[[CacheRepository], bool]) -> None:
        cache = self._writing
        if cache is None or not self._useful(cache):
            return
        try:
            push(cache)
        except LockbuildError as error:
            self._transfers.check()
            self._places.pass_over(cache, f"nothing more is put into it: {error.what}")

    def _useful(self, cache: CacheRepository) -> bool:
        """Whether it is of use; whether it answers is asked once."""
        with self._lock:
            if cache not in self._reached:
                self._reached.add(cache)
                try:
                    cache.reach()
                except LockbuildError as error:
                    self._places.pass_over(cache, error.what)
        return self._places.is_useful(cache)
