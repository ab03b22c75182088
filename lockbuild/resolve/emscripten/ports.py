"""``from = "port"``: a port of Emscripten with all that it may need, pinned as the environment's Emscripten pins them.

Each becomes a tree beside the others, since Emscripten looks for all ports in one directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from lockbuild.errors import ResolveError
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import BINDINGS, PortTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.dawn import commit_behind
from lockbuild.resolve.emscripten.pinned import PinnedPorts, emscripten_of
from lockbuild.resolve.emscripten.port_file import PortArchive, PortFile
from lockbuild.resolve.emscripten.repositories import archive_purl


def resolve(
    name: str, request: PortTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock a port and what it needs; the trees are the same on every platform.

    ``context.resolved`` has the Emscripten. ResolveError where that does not have the port, or cannot use it; where
    its port file cannot be read as data; where there is no Emscripten.
    """
    short = name.partition(".")[2]
    port = request.port or short
    mount = PurePosixPath(request.place(short))
    if mount.name != port:
        raise ResolveError(
            f"{mount} does not end in {port!r}, and Emscripten looks for the port in a directory of that name",
            on=f"{name}.mount",
            hint=f"use {mount / port}",
        )
    ports = PinnedPorts(name, emscripten_of(name, request.of, context), context)
    pinned = ports.get(port)
    wanted = ports.get(port, request.version) if request.version is not None else pinned
    trees: list[LockedTree] = []
    sources: list[Source] = []
    behind = commit_behind(wanted.version, context) if port == BINDINGS and wanted.version else None

    def add(file: PortFile, archive: PortArchive, pinned: PortArchive, more: Mapping[str, str]) -> None:
        own = file is wanted and archive.directory == port
        tree = LockedTree(
            name=name if own else f"{name}+{archive.directory}",
            platform="any",
            unpack="port",
            mount=str(mount.parent / archive.directory),
            parameters={"url": pinned.url, **more},
            pins={
                "emscripten": ports.emscripten,
                "version": file.version or "unknown",
                **({"dawn": behind} if own and behind is not None else {}),
            },
            exports={"EM_PORTS": str(mount.parent), **request.exports} if own else {},
        )
        trees.append(tree)
        sources.append(_source(name, file, archive, tree, context))

    for archive, before in zip(wanted.archives, pinned.archives, strict=True):
        if request.version is not None:
            archive = PortArchive(archive.directory, archive.url, request.sha512)
        add(wanted, archive, before, _renamed(name, pinned, wanted))
    for needed in ports.closure(pinned):
        for archive in needed.archives:
            add(needed, archive, archive, {})
    if not any(tree.name == name for tree in trees):
        raise ResolveError(
            f"the port {port!r} has no archive of its own in Emscripten {ports.emscripten}", on=name
        )
    return Resolution(tuple(trees), tuple(sources))


def _source(
    name: str, file: PortFile, archive: PortArchive, tree: LockedTree, context: ResolveContext
) -> Source:
    purl = archive_purl(archive.directory, file.version, archive.url)
    if archive.sha512 is not None:
        return Source(purl=purl, url=archive.url, sha512=archive.sha512, trees=[tree.id])
    from lockbuild.resolve.first_use import take

    digest, size = take(archive.url, context, on=name)
    return Source(purl=purl, url=archive.url, sha256=digest, size=size, trust="first-use", trees=[tree.id])


def _renamed(name: str, pinned: PortFile, wanted: PortFile) -> dict[str, str]:
    """Where another version stands in a directory of another name: what that has to be called."""
    if pinned.remote is not None or pinned.inner == wanted.inner:
        return {}
    if pinned.inner is None or wanted.inner is None:
        raise ResolveError(
            "Emscripten builds this port from a directory whose name cannot be told", on=f"{name}.version"
        )
    return {"directory": wanted.inner, "as": pinned.inner}
