"""``lockbuild cache push`` and ``pull``: all of what a lock names, to a cache and from it, on request.

Unlike what `sync` does on the way, they fail where the cache does not do as it should.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lockbuild.environment.materialise import recipe
from lockbuild.errors import UsageError
from lockbuild.events import Advanced, Finished, Reporter, Started
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedTree, Source
from lockbuild.model.outcome import BuiltFile
from lockbuild.model.platform import Platform
from lockbuild.model.reference import Reference
from lockbuild.oci.cache import CacheRepository
from lockbuild.store.sources import has_source
from lockbuild.transport.transfers import Transfers
from lockbuild.workflow.cache import UNPACKED_AT_ONCE, missing_sources, missing_trees
from lockbuild.workflow.workspace import Workspace

T = TypeVar("T")

_HINT = 'name one (registry/repository), or set [cache] {key} in lockbuild\'s config.toml ("lockbuild config path")'


@dataclass(frozen=True, slots=True)
class Transferred:
    """What went, by kind (``trees``, ``sources``, ``outputs``): names. ``unchanged`` was where it should be already,
    ``missing`` was not to be had."""

    cache: str
    done: dict[str, tuple[str, ...]]
    unchanged: dict[str, int]
    missing: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "cache": self.cache,
            **{kind: list(names) for kind, names in self.done.items()},
            "unchanged": dict(self.unchanged),
            "missing": list(self.missing),
        }


def push(
    workspace: Workspace,
    lock: Lock,
    chosen: str | None,
    platforms: Sequence[Platform] = (),
    *,
    replace: bool = False,
) -> Transferred:
    """Give the cache every tree and source of the lock that the store has, and recorded outputs whose bytes it has.

    Of all platforms that the lock is for, unless some are named. With ``replace`` also what it has already.
    TransferError where the cache does not take it.
    """
    cache = _cache(workspace, chosen, workspace.config.cache.write, "write", replace=replace)
    store = workspace.store
    workspace.hold_store()
    chosen_platforms = _platforms(lock, platforms)
    trees, absent = _trees_here(workspace, lock, chosen_platforms)
    sources = [
        source
        for source in _sources(lock, chosen_platforms)
        if source.patch is None and has_source(store, source)
    ]
    outputs = [
        (target, recorded)
        for target, recorded in sorted(lock.outputs.items())
        if recorded.platform in chosen_platforms
        and all(store.has_blob(file.sha256) for file in recorded.files)
    ]
    work = _Work(workspace.report, cache, workspace.config.network.connections)
    work.each(
        "trees",
        trees,
        lambda one: one[1].name,
        lambda one: cache.repository.push_tree(one[0], store.tree_path(one[0]), one[1].name),
        connections=UNPACKED_AT_ONCE,
    )
    work.each("sources", sources, lambda source: source.purl, cache.repository.push_source)
    work.each(
        "outputs",
        outputs,
        lambda one: one[0],
        lambda one: cache.repository.push_outputs(
            one[1].input,
            one[0],
            str(one[1].platform),
            [BuiltFile(file.path, file.size, file.sha256) for file in one[1].files],
            None,
        ),
    )
    return work.result(absent)


def pull(
    workspace: Workspace,
    lock: Lock,
    chosen: str | None,
    platforms: Sequence[Platform] = (),
    *,
    sources_too: bool = False,
) -> Transferred:
    """Bring what the store lacks of the lock into it: the trees that it records, and the sources of all others.

    Of this machine's platform, unless others are named; with ``sources_too`` the sources of all trees. IntegrityError
    where the cache has something else under a name, TransferError where it does not answer.
    """
    configured = workspace.config.cache.read
    cache = _cache(workspace, chosen, configured[0] if configured else None, "read")
    store = workspace.store
    workspace.hold_store()
    wanted = _platforms(lock, platforms or [workspace.platform])
    trees = _trees(lock, wanted)
    work = _Work(workspace.report, cache, workspace.config.network.connections)
    missing = missing_trees(store, trees)
    recorded = {tree.digest for tree in trees if tree.digest is not None}
    work.unchanged["trees"] = len(recorded) - len(missing)

    def tree(one: LockedTree) -> bool:
        assert one.digest is not None
        return cache.repository.fetch_tree(one.digest, one.name)

    work.each("trees", missing, lambda one: one.name, tree, counts_absent=True, connections=UNPACKED_AT_ONCE)
    unmade = [
        one
        for one in trees
        if sources_too or one.digest is None or (one.unpack != "path" and not store.has_tree(one.digest))
    ]
    needed = [source for one in unmade for source in lock.sources_of(one)]
    lacking = missing_sources(store, needed)
    work.unchanged["sources"] = len({source.identity for source in needed}) - len(lacking)
    work.each("sources", lacking, lambda one: one.purl, cache.repository.fetch_source, counts_absent=True)
    return work.result([])


@dataclass(frozen=True, slots=True)
class _Cache:
    repository: CacheRepository
    transfers: Transfers


class _Work:
    """Counts what was done."""

    def __init__(self, report: Reporter, cache: _Cache, connections: int) -> None:
        self.unchanged: dict[str, int] = {}
        self._report = report
        self._cache = cache
        self._connections = connections
        self._done: dict[str, list[str]] = {}
        self._absent: list[str] = []
        self._lock = threading.Lock()

    def each(
        self,
        kind: str,
        items: Sequence[T],
        name: Callable[[T], str],
        work: Callable[[T], bool],
        *,
        counts_absent: bool = False,
        connections: int | None = None,
    ) -> None:
        """Do ``work`` for each; what it says False of was there already, or (``counts_absent``) is not to be had."""
        done = self._done.setdefault(kind, [])
        self.unchanged.setdefault(kind, 0)
        key = f"cache:{kind}"
        self._report(Started(key, kind, len(items), "items"))

        def one(item: T) -> None:
            moved = work(item)
            with self._lock:
                if moved:
                    done.append(name(item))
                elif counts_absent:
                    self._absent.append(name(item))
                else:
                    self.unchanged[kind] += 1
            self._report(Advanced(key, 1))

        try:
            self._cache.transfers.each(
                items, one, connections=connections or self._connections, name=f"cache-{kind}"
            )
        finally:
            self._report(Finished(key))

    def result(self, absent: Sequence[str]) -> Transferred:
        """What it came to."""
        return Transferred(
            cache=str(self._cache.repository),
            done={kind: tuple(sorted(names)) for kind, names in self._done.items()},
            unchanged=self.unchanged,
            missing=tuple(sorted({*self._absent, *absent})),
        )


def _cache(
    workspace: Workspace, chosen: str | None, configured: str | None, key: str, *, replace: bool = False
) -> _Cache:
    text = chosen or configured
    if text is None:
        raise UsageError("no cache is named", hint=_HINT.format(key=key))
    try:
        reference = Reference.parse(text)
    except ValueError as error:
        raise UsageError(str(error), on="cache") from None
    if reference.name != text:
        raise UsageError(
            "a cache is a whole repository; it has no tag and no digest",
            on=text,
            hint=f"write {reference.name}",
        )
    transfers = Transfers()
    repository = CacheRepository(
        workspace.registries, reference, workspace.store, transfers, workspace.report, replace=replace
    )
    return _Cache(repository, transfers)


def _platforms(lock: Lock, chosen: Sequence[Platform]) -> list[Platform]:
    there = locked_platforms(lock)
    for platform in chosen:
        if platform not in there:
            raise UsageError(
                f"the lock is not for {platform} (it is for {', '.join(map(str, there))})",
                hint=f"run `lockbuild lock --platform {platform}`",
            )
    return list(chosen or there)


def _trees(lock: Lock, platforms: Sequence[Platform]) -> list[LockedTree]:
    return [tree for tree in lock.trees if tree.platform == "any" or tree.platform in platforms]


def _sources(lock: Lock, platforms: Sequence[Platform]) -> list[Source]:
    found = {source.identity: source for tree in _trees(lock, platforms) for source in lock.sources_of(tree)}
    return list(found.values())


def _trees_here(
    workspace: Workspace, lock: Lock, platforms: Sequence[Platform]
) -> tuple[list[tuple[Digest, LockedTree]], list[str]]:
    """The lock's trees that the store has, each once, and the names of those that it lacks."""
    here: dict[Digest, LockedTree] = {}
    absent: list[str] = []
    for tree in _trees(lock, platforms):
        if tree.unpack == "path":
            continue
        digest = tree.digest
        if digest is None and tree.unpack != "derive":
            digest = workspace.store.recall(recipe(tree, lock.sources_of(tree)))
        if digest is not None and workspace.store.has_tree(digest):
            here.setdefault(digest, tree)
        else:
            absent.append(tree.id)
    return list(here.items()), absent
