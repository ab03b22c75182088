"""What a lock needs where there is no network: which trees are taken along ready, and which sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lockbuild.environment.materialise import recipe
from lockbuild.errors import UsageError
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.store.sources import has_source

if TYPE_CHECKING:
    from lockbuild.store import Store

With = Literal["trees", "sources", "both"]


@dataclass(frozen=True, slots=True)
class Needs:
    """``trees`` are those whose digest the lock records, by that, with their ids; ``sources`` the lock's."""

    trees: dict[Digest, list[str]]
    sources: tuple[Source, ...]


def needs(lock: Lock, platforms: Collection[Platform], what: With) -> Needs:
    """What ``lock`` needs on ``platforms``.

    Ready are derived tools, and with ``trees`` or ``both`` all that are not directories of the project. A tree whose
    digest the lock does not record is none that a bundle can vouch for: its sources come along instead. UsageError
    where not even those are bound by a digest.
    """
    trees: dict[Digest, list[str]] = {}
    from_sources: set[str] = set()
    for tree in wanted(lock, platforms):
        ready = tree.digest is not None and (what != "sources" or tree.unpack == "derive")
        if ready and tree.digest is not None:
            trees.setdefault(tree.digest, []).append(tree.id)
        if tree.unpack != "derive" and (what != "trees" or not ready):
            from_sources.add(tree.id)
    sources = tuple(source for source in lock.sources if not from_sources.isdisjoint(source.trees))
    unbound = [source for source in sources if source.sha256 is None and source.sha512 is None]
    if unbound:
        raise UsageError(
            f"the lock does not say what bytes {unbound[0].purl} is"
            + (f" (nor do {len(unbound) - 1} more)" if len(unbound) > 1 else ""),
            hint="run `lockbuild lock --materialise`, which records digests, and make the bundle then",
        )
    return Needs({digest: sorted(names) for digest, names in sorted(trees.items())}, sources)


def wanted(lock: Lock, platforms: Collection[Platform]) -> list[LockedTree]:
    """The lock's trees for ``platforms`` but for directories of the project, which are there."""
    return [
        tree
        for tree in lock.trees
        if tree.unpack != "path" and (tree.platform == "any" or tree.platform in platforms)
    ]


def require_platforms(lock: Lock, platforms: Iterable[Platform], *, on: str) -> None:
    """UsageError where the lock is not for all of them."""
    there = locked_platforms(lock)
    for platform in platforms:
        if platform not in there:
            raise UsageError(
                f"the lock is not for {platform} (it is for {', '.join(map(str, there))})",
                on=on,
                hint=f"run `lockbuild lock --platform {platform}`, which adds it and keeps every other pin",
            )


def lacking(store: Store, lock: Lock, platforms: Collection[Platform]) -> list[str]:
    """What ``store`` lacks to make ``lock`` real on ``platforms`` without a network: tree ids and package URLs."""
    found: list[str] = []
    for tree in wanted(lock, platforms):
        if tree.unpack == "derive" or has_tree(store, lock, tree):
            continue  # a tool can be derived again, from the others
        sources = lock.sources_of(tree)
        missing = [source for source in sources if source.patch is None and not has_source(store, source)]
        if len(missing) == len([source for source in sources if source.patch is None]):
            found.append(tree.id)
        else:
            found.extend(source.purl for source in missing)
    return list(dict.fromkeys(found))


def has_tree(store: Store, lock: Lock, tree: LockedTree) -> bool:
    """Whether the store has the tree, as the lock records it or as its sources gave it."""
    digest = tree.digest
    if digest is None and tree.unpack != "derive":
        digest = store.recall(recipe(tree, lock.sources_of(tree)))
    return digest is not None and store.has_tree(digest)
