"""From locked sources to a tree in the store, at most once for each recipe.

A recipe is everything that decides a tree's bytes; its digest is the key under which the store
remembers what came out. How sources of each kind become a tree stands in one table, `UNPACKERS`.
Trees that are no function of fetched files (``path``, ``derive``) are made by the workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError, UsageError
from lockbuild.events import Finished, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import LockedTree, Source, Unpack
from lockbuild.store.sources import source_blob

if TYPE_CHECKING:
    from lockbuild.store import Store

VERSION = 1
"""Raised whenever an unpacker comes to give other bytes, so that no older tree is taken for its result."""

_NAMED: frozenset[Unpack] = frozenset({"npm"})
"""The kinds whose trees hold also what their sources are called and where they were."""

Unpacker = Callable[[LockedTree, Sequence[Source], Sequence[Path], Path, Reporter], None]
"""Fill the empty directory (fourth) with the tree, from its sources and their verified files, in order."""


def root_of(tree: LockedTree) -> str:
    """The path that the tree's sources are unpacked at, inside the tree.

    An environment's trees are rooted at ``/`` of the environment: a tool for /opt/cmake has the entries
    ``opt/``, ``opt/cmake/``. Project sources are no part of it and rooted at themselves: ``/``.
    """
    return "/" if tree.mount.startswith(f"{SOURCES_DIR}/") or tree.name.startswith("sources.") else tree.mount


def recipe(tree: LockedTree, sources: Sequence[Source]) -> Digest:
    """The digest of all that decides what the tree is: canonical JSON, the sources in their order."""
    import json

    decisive: dict[str, object] = {
        "materialiser": VERSION,
        "mount": root_of(tree),
        "platform": str(tree.platform),
        "sources": [source.identity.hex for source in sources],
        "strip": tree.strip,
        "unpack": tree.unpack,
    }
    # What most trees lack is left out where it is lacking: so it decides nothing there, as before it was known.
    if tree.parameters:
        decisive["parameters"] = tree.parameters
    if any(source.at or source.patch for source in sources):
        decisive["places"] = [[source.at, source.patch] for source in sources]
    if tree.unpack in _NAMED:
        decisive["names"] = [[source.purl, source.location] for source in sources]
    return Digest.of(json.dumps(decisive, sort_keys=True, separators=(",", ":")).encode())


def materialise(store: Store, tree: LockedTree, sources: Sequence[Source], *, report: Reporter) -> Digest:
    """The tree's digest; the tree is in the store afterwards. Every source must be there already.

    Safe to run for several trees at once. Raises IntegrityError where a source's bytes are not the locked
    ones or the tree comes out other than ``tree.digest``; what the unpackers raise; FetchError for a
    full disk.
    """
    unpacker = UNPACKERS.get(tree.unpack)
    if unpacker is None:
        raise UsageError(
            f"a tree of the kind {tree.unpack!r} is not made from fetched files",
            on=tree.id,
            hint="make it through the workflow that belongs to it",
        )
    key = recipe(tree, sources)
    known = store.recall(key)
    if known is not None and store.has_tree(known):
        if tree.digest not in (None, known):
            raise IntegrityError(
                f"its sources give the tree {known}, but {tree.digest} is recorded",
                on=tree.id,
                hint="the lock was edited, or recorded by something else; lock again with --materialise",
            )
        return known
    files = _verified(store, sources)
    with store.new_tree() as staged:
        with _naming(sources, files):
            unpacker(tree, sources, files, staged.path, report)
        digest = staged.commit(tree.digest)
    store.remember(key, digest)
    return digest


@contextmanager
def _naming(sources: Sequence[Source], files: Sequence[Path]) -> Iterator[None]:
    """Say which source it is where an unpacker complains of a file of the store."""
    try:
        yield
    except IntegrityError as error:
        names = {str(file): source.purl for source, file in zip(sources, files, strict=True)}
        if error.on not in names:
            raise
        raise IntegrityError(error.what, on=f"{names[error.on]} ({error.on})", hint=error.hint) from error


def _verified(store: Store, sources: Sequence[Source]) -> list[Path]:
    """The files of ``sources``, hashed again; one IntegrityError for all that are damaged, which are removed."""
    files: list[Path] = []
    damaged: list[tuple[Source, IntegrityError]] = []
    for source in sources:
        try:
            files.append(store.verified_blob(source_blob(store, source)))
        except IntegrityError as error:
            damaged.append((source, error))
    if len(damaged) == 1:
        source, reason = damaged[0]
        raise IntegrityError(reason.what, on=source.purl, hint=reason.hint)
    if damaged:
        lines = "".join(f"\n  {source.purl}: {reason.what}" for source, reason in damaged)
        raise IntegrityError(f"{len(damaged)} sources cannot be used{lines}", hint=damaged[0][1].hint)
    return files


def _debian_root(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.debian import debian_root

    assert tree.platform != "any", "the schema of locks and the resolver give a base its platform"
    debian_root(files, root, platform=tree.platform, report=report)


def _debian_tool(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.debian import debian_tool

    assert tree.platform != "any", "the schema of locks and the resolver give it its platform"
    debian_tool(files, root, mount=root_of(tree), platform=tree.platform, report=report)


def _oci_root(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.oci_root import oci_root

    assert tree.platform != "any", "the schema of locks and the resolver give a base its platform"
    packages = tree.parameters.get("packages")
    oci_root(
        sources,
        files,
        root,
        platform=tree.platform,
        packages=None if packages is None else Digest.parse(packages),
        report=report,
    )


def _wheels(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.wheels import wheels

    with _task(tree, report):
        wheels(files, root, mount=root_of(tree))


def _archive(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.archives import archive

    found = list(zip(sources, files, strict=True))
    patches = sorted(
        (source.patch, source.location, file) for source, file in found if source.patch is not None
    )
    with _task(tree, report):
        for source, file in found:
            if source.patch is None:
                archive(
                    file,
                    root,
                    mount=root_of(tree),
                    strip=tree.strip,
                    name=source.location,
                    subdirectory=tree.parameters.get("subdirectory"),
                    patches=[(name, patch) for _, name, patch in patches],
                )


def _npm(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.npm_cache import npm_cache

    with _task(tree, report):
        npm_cache(sources, files, root, mount=root_of(tree))


def _git(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.git import git_tree

    with _task(tree, report):
        git_tree(sources, files, root, mount=root_of(tree), parameters=tree.parameters)


def _emsdk(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.emsdk import emsdk

    with _task(tree, report):
        emsdk(sources, files, root, mount=root_of(tree), parameters=tree.parameters)


def _port(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.port import port

    with _task(tree, report):
        port(sources, files, root, mount=root_of(tree), parameters=tree.parameters)


def _files(
    tree: LockedTree, sources: Sequence[Source], files: Sequence[Path], root: Path, report: Reporter
) -> None:
    from lockbuild.environment.files import files_tree

    with _task(tree, report):
        files_tree(sources, files, root, mount=root_of(tree))


@contextmanager
def _task(tree: LockedTree, report: Reporter) -> Iterator[None]:
    key = f"unpack {tree.id}"
    report(Started(key, f"unpack {tree.name}"))
    try:
        yield
    finally:
        report(Finished(key))


UNPACKERS: Mapping[Unpack, Unpacker] = {
    "debian-root": _debian_root,
    "oci-root": _oci_root,
    "debian-tool": _debian_tool,
    "wheels": _wheels,
    "archive": _archive,
    "emsdk": _emsdk,
    "port": _port,
    "npm": _npm,
    "git": _git,
    "files": _files,
}
