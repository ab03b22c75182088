"""What a process in an environment sees: the trees in their order, and its variables.

Of the caller's environment nothing is passed on; everything here is the same for everyone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lockbuild.archive.rootfs import View
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import HOME_DIR, Environment, MountedTree
from lockbuild.model.lock import LockedTree
from lockbuild.model.platform import Platform

if TYPE_CHECKING:
    from lockbuild.store import Store

SOURCE_DATE_EPOCH = 315532800
"""1980-01-01T00:00:00Z: the earliest time that a zip file can hold, so that packers of zips work, too."""
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIXED_VARIABLES = {
    "HOME": HOME_DIR,
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
    "TZ": "UTC",
}
"""What every process sees, whatever the environment."""
_OUT = re.compile(r"\$(?:OUT\b|\{OUT\})")


def compose(store: Store, platform: Platform, trees: Sequence[tuple[LockedTree, Digest]]) -> Environment:
    """The environment of ``trees`` (the base first, then tools), each with the digest it came out with.

    PATH has each tool's ``bin`` that exists, in order, before the directories that the base names, and the
    system's. What the base exports (an image may) goes after what tools export, or yields to it. A tree's
    ``exports`` are added with ``$OUT`` as its mount point. Several trees' values of one variable whose
    name ends in PATH are joined with ``:`` in order; of any other variable they must agree, else
    UsageError. A port that other ports need stands there once. IntegrityError where the store lacks a tree,
    and where what one has at its mount is no directory, or a link leads there.
    """
    standing = list(_standing(trees))
    mounted = tuple(
        MountedTree(name=tree.name, digest=digest, mount=tree.mount, root=store.tree_path(digest))
        for tree, digest in standing
    )
    view = View(mounted)
    exported = _exported([tree for tree, _ in standing])
    path = [
        *exported.pop("PATH", "").split(":"),
        *(
            f"{tree.mount}/bin"
            for tree in mounted
            if tree.mount != "/"
            and (found := view.locate(f"{tree.mount}/bin")) is not None
            and found.is_dir()
        ),
    ]
    variables = {**FIXED_VARIABLES, **exported}
    base = {name: value for tree, _ in standing if tree.mount == "/" for name, value in tree.exports.items()}
    system = dict.fromkeys([*base.pop("PATH", "").split(":"), *_SYSTEM_PATH.split(":")])
    for name, value in base.items():
        if name not in exported:
            variables[name] = value
        elif name.endswith("PATH"):
            variables[name] += f":{value}"
    variables["PATH"] = ":".join(filter(None, [*path, *system]))
    return Environment(platform=platform, trees=mounted, variables=dict(sorted(variables.items())))


def require_composable(trees: Sequence[tuple[LockedTree, Digest]]) -> None:
    """UsageError where `compose` would refuse the trees, whatever they hold, or one would stand inside another.

    Before they are made; instead of its digest, a tree comes with one of what it is to be made from.
    """
    standing = [tree for tree, _ in _standing(trees)]
    _exported(standing)
    for tree in standing:
        for other in standing:
            if other.mount != "/" and tree.mount.startswith(f"{other.mount}/"):
                raise UsageError(
                    f"its place {tree.mount} is inside that of {other.name}, {other.mount}",
                    on=tree.name,
                    hint=f"give {other.name} another mount",
                )


def _exported(trees: Iterable[LockedTree]) -> dict[str, str]:
    """What tools export, put together as `compose` says."""
    variables: dict[str, str] = {}
    owners: dict[str, str] = {}
    for tree in trees:
        for name, value in tree.exports.items() if tree.mount != "/" else ():
            value = _OUT.sub(lambda _, mount=tree.mount: mount, value)  # type: ignore[misc]
            if name not in owners:
                variables[name] = value
            elif name.endswith("PATH"):
                variables[name] += f":{value}"
            elif variables[name] != value:
                raise UsageError(
                    f"{owners[name]} and {tree.name} export it with different values "
                    f"({variables[name]!r} and {value!r})",
                    on=f"{tree.name}: variable {name}",
                    hint="have the same value in the exports of both, or leave it out of one",
                )
            owners.setdefault(name, tree.name)
    return variables


def in_environment(trees: Iterable[LockedTree]) -> list[LockedTree]:
    """Those of a lock's trees that stand in an environment, in its order: base, tools, derived tools.

    What changes least often comes first.
    """
    rank = {"base": 0, "tools": 1, "derive": 2}
    standing = [tree for tree in trees if tree.name.partition(".")[0] in rank]
    return sorted(standing, key=lambda tree: (rank[tree.name.partition(".")[0]], tree.name))


def _standing(trees: Sequence[tuple[LockedTree, Digest]]) -> Iterator[tuple[LockedTree, Digest]]:
    """The trees without those for ports that others need (``tools.NAME+PORT``) and that stand there anyway.

    A port that is a tool of its own goes before one that another port brings along; two that are brought along
    must be the same.
    """
    own = {tree.mount for tree, _ in trees if "+" not in tree.name}
    brought: dict[str, tuple[LockedTree, Digest]] = {}
    for tree, digest in trees:
        if "+" in tree.name:
            other, known = brought.setdefault(tree.mount, (tree, digest))
            if known != digest:
                raise UsageError(
                    f"{other.name.partition('+')[0]} and {tree.name.partition('+')[0]} need different ones",
                    on=f"port {tree.mount}",
                    hint="make a tool of that port, so that the manifest decides",
                )
            if other is not tree or tree.mount in own:
                continue
        yield tree, digest
