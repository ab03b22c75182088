"""Whether the trees of a lock are those that a manifest asks for.

The keys of the manifest that a lock was made from stand in the lock and are compared by value. This is the other
half: a lock that was merged or edited by hand can have the right keys and other trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import Lock, Unpack
from lockbuild.model.manifest import Manifest
from lockbuild.model.platform import Platform

_WITH_EXPORTS: frozenset[Unpack] = frozenset({"debian-tool", "emsdk", "git", "npm", "oci-root", "port"})
"""The kinds of trees that bring exports of their own, over which those of the manifest go."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The tree called ``name`` is not as the manifest asks for: ``what`` is a phrase that names it."""

    name: str
    what: str


def tree_names(manifest: Manifest) -> list[str]:
    """The names of the trees that a manifest asks for: base, tools, derived tools, project sources."""
    return [
        "base",
        *(f"tools.{name}" for name in manifest.toolchain.tools),
        *(f"derive.{name}" for name in manifest.toolchain.derive),
        *(f"sources.{name}" for name in manifest.project.sources),
    ]


def locked_platforms(lock: Lock) -> list[Platform]:
    """What a lock is for: the platforms that it has a base for, sorted."""
    return sorted(tree.platform for tree in lock.trees if tree.name == "base" and tree.platform != "any")


def misfits(lock: Lock, manifest: Manifest, platforms: Collection[Platform] | None = None) -> list[Misfit]:
    """Every tree that is missing, that nobody asks for, or that stands or says otherwise than the manifest.

    For ``platforms``; by default for those of the manifest, and those that the lock is for beside them.
    """
    if platforms is None:
        platforms = dict.fromkeys([*manifest.toolchain.platforms, *locked_platforms(lock)])
    return [*_missing(lock, manifest, platforms), *_foreign(lock, manifest, platforms)]


def _missing(lock: Lock, manifest: Manifest, platforms: Collection[Platform]) -> Iterator[Misfit]:
    known = {tree.id for tree in lock.trees}
    for name in tree_names(manifest):
        for platform in platforms:
            if f"{platform}:{name}" not in known and f"any:{name}" not in known:
                yield Misfit(name, f"{platform}:{name} is missing")


def _foreign(lock: Lock, manifest: Manifest, platforms: Collection[Platform]) -> Iterator[Misfit]:
    names = set(tree_names(manifest))
    for tree in lock.trees:
        name, _, needed = tree.name.partition("+")
        if name not in names or tree.platform not in ("any", *platforms):
            yield Misfit(name, f"nothing asks for {tree.id}")
            continue
        mount, exports = _asked(name, manifest)
        if needed:  # a port that the port needs, beside it
            mount, exports = f"{PurePosixPath(mount).parent}/{needed}", {}
        if tree.mount != mount:
            yield Misfit(name, f"{tree.id} has the mount {tree.mount!r}, not {mount!r}")
        own = tree.exports if tree.unpack in _WITH_EXPORTS and not needed else {}
        if tree.exports != {**own, **exports}:
            yield Misfit(name, f"{tree.id} has other exports")


def _asked(name: str, manifest: Manifest) -> tuple[str, dict[str, str]]:
    """Mount and exports that the manifest gives the tree of that name."""
    group, _, short = name.partition(".")
    if group == "base":
        return "/", {}
    if group == "sources":
        return f"{SOURCES_DIR}/{short}", {}
    mount = dict(manifest.toolchain.mounts())[name]
    owner = manifest.toolchain.tools[short] if group == "tools" else manifest.toolchain.derive[short]
    return mount, owner.exports
