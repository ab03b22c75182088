"""The parts that a lock is put together from, and which of an earlier lock's may stay.

The unit of change is a tree with its sources. Digests that were found out by materialising stay while what they are
digests of does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from lockbuild.model.lock import Lock, LockedEnvironment, LockedTree, Source, Suite
from lockbuild.model.platform import Platform
from lockbuild.resolve.context import Resolution


@dataclass(slots=True)
class Parts:
    """Trees, the sources of all of them (each once, whoever uses it), and the signed indexes behind those."""

    trees: list[LockedTree] = field(default_factory=list)
    sources: dict[tuple[object, ...], Source] = field(default_factory=dict)
    suites: dict[tuple[str, str], Suite] = field(default_factory=dict)

    def add(self, resolution: Resolution) -> None:
        """Have what a request was locked to."""
        self.trees.extend(resolution.trees)
        for source in resolution.sources:
            known = self.sources.get(source.place)
            if known is not None:
                both = sorted({*known.trees, *source.trees})
                source = source.model_copy(update={"trees": both, "sha256": source.sha256 or known.sha256})
            self.sources[source.place] = source
        for suite in resolution.suites:
            self.suites[suite.name, str(suite.inrelease)] = suite


def together(*resolutions: Resolution) -> Resolution:
    """One resolution of what are several, as those for different platforms."""
    parts = Parts()
    for resolution in resolutions:
        parts.add(resolution)
    return Resolution(tuple(parts.trees), tuple(parts.sources.values()), tuple(parts.suites.values()))


def same(before: Resolution, after: Resolution) -> bool:
    """Whether two resolutions are of the same bytes and say the same of them."""
    return _gist(before) == _gist(after)


def _gist(resolution: Resolution) -> tuple[object, ...]:
    trees = {tree.id: _bare(tree) for tree in resolution.trees}
    return trees, {
        (source.purl, source.location, source.at, source.patch, source.identity)
        for source in resolution.sources
    }


def limited(lock: Lock, platforms: Collection[Platform]) -> Lock:
    """The lock without the trees of other platforms, and without their sources."""
    trees = [tree for tree in lock.trees if tree.platform == "any" or tree.platform in platforms]
    return lock.model_copy(update={"trees": trees, "sources": _sources_of(lock, trees)})


def kept(lock: Lock, key: str) -> Resolution | None:
    """What the request under ``key`` of the manifest was locked to; None where the lock has nothing of it."""
    trees = [tree for tree in lock.trees if tree.belongs_to(key)]
    sources = _sources_of(lock, trees)
    suites = [
        suite for suite in lock.suites if any(f"distro={suite.codename}" in source.purl for source in sources)
    ]
    return Resolution(tuple(trees), tuple(sources), tuple(suites)) if trees else None


def _sources_of(lock: Lock, trees: Iterable[LockedTree]) -> list[Source]:
    ids = {tree.id for tree in trees}
    return [
        source.model_copy(update={"trees": [tree for tree in source.trees if tree in ids]})
        for source in lock.sources
        if ids.intersection(source.trees)
    ]


def with_known_digests(old: Lock, parts: Parts, changed_keys: Collection[str]) -> list[LockedTree]:
    """The trees, each with the digest that the old lock has for it where nothing below it changed.

    ``changed_keys`` are those of the manifest: steps of a derived tool stand nowhere else.
    """
    known = {tree.id: tree for tree in old.trees}
    contents = {tree.id: _contents(old.sources, tree) for tree in old.trees}
    result: list[LockedTree] = []
    changed: set[Platform | str] = set()
    for tree in parts.trees:
        before = known.get(tree.id)
        unchanged = before is not None and _decisive(before) == _decisive(tree)
        if tree.unpack == "derive":
            unchanged &= not any(key.startswith(f"{tree.name}.") for key in changed_keys)
            unchanged &= changed.isdisjoint((tree.platform, "any"))
        elif tree.unpack != "path":
            unchanged &= contents.get(tree.id) == _contents(parts.sources.values(), tree)
        if not unchanged and not tree.name.startswith("sources."):
            changed.add(tree.platform)
        if unchanged and before is not None and tree.digest is None:
            tree = tree.model_copy(update={"digest": before.digest})
        result.append(tree)
    return result


def with_known_sha256(old: Lock, sources: Iterable[Source]) -> list[Source]:
    """The sources with the SHA-256 that materialising the old lock found of those bound otherwise."""
    known = {source.identity: source.sha256 for source in old.sources}
    return [
        source.model_copy(update={"sha256": source.sha256 or known.get(source.identity)})
        for source in sources
    ]


def known_environments(old: Lock, new: Lock) -> dict[str, LockedEnvironment]:
    """The images that the old lock has and that the new one still makes."""
    return {
        platform: image
        for platform, image in old.environments.items()
        if old.manifest.inputs.get("name") == new.manifest.inputs.get("name")  # the image's title
        and _environment(old.trees, platform) == _environment(new.trees, platform)
        and old.environment_digest(Platform.parse(platform))
        == new.environment_digest(Platform.parse(platform))
    }


def _bare(tree: LockedTree) -> LockedTree:
    return tree.model_copy(update={"digest": None})


def _decisive(tree: LockedTree) -> LockedTree:
    """What of a tree decides its digest, or what is made with it: not what it says of itself for people."""
    return tree.model_copy(update={"digest": None, "pins": {}})


def _contents(sources: Iterable[Source], tree: LockedTree) -> list[tuple[str, str, str, int]]:
    return sorted(
        (source.purl, str(source.identity), source.at or "", source.patch or 0)
        for source in sources
        if tree.id in source.trees
    )


def _environment(trees: Iterable[LockedTree], platform: str) -> list[tuple[str, str, str]]:
    return sorted(
        (tree.name, str(tree.digest), repr(sorted(tree.exports.items())))
        for tree in trees
        if str(tree.platform) in (platform, "any") and not tree.name.startswith("sources.")
    )
