"""``from = "port"``: a port of Emscripten with all that it may need, pinned as the environment's Emscripten pins them.

Each becomes a tree beside the others, since Emscripten looks for all ports in one directory.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from lockbuild.errors import ResolveError
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PortTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.dawn import commit_behind
from lockbuild.resolve.emscripten import port_file
from lockbuild.resolve.emscripten.port_file import PortArchive, PortFile
from lockbuild.resolve.emscripten.repositories import EMSCRIPTEN, archive_purl, origin, read, tagged

_DIRECTORY = "tools/ports"
_CONTRIBUTED = "contrib"
_REMOTE_SINCE = (4, 0, 10)
"""The first Emscripten that can use a port whose port file is in its archive."""
_MARKER_SINCE = (2, 0, 16)
"""The first Emscripten that looks for a marker, and takes what stands beside it."""
_BINDINGS = "emdawnwebgpu"
"""The bindings to WebGPU, whose releases are made from commits of Dawn."""
_REMOTE_FROM_THE_START = (_BINDINGS,)
_SHOWN = 5


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
    ports = _Ports(name, _emscripten(name, request, context), context)
    pinned = ports.get(port)
    wanted = ports.get(port, request.version) if request.version is not None else pinned
    trees: list[LockedTree] = []
    sources: list[Source] = []
    behind = commit_behind(wanted.version, context) if port == _BINDINGS and wanted.version else None

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


class _Ports:
    """The port files of one version of Emscripten, each read once."""

    def __init__(self, name: str, emscripten: str, context: ResolveContext) -> None:
        self._name = name
        self.emscripten = emscripten
        self._context = context
        commit = tagged(context, EMSCRIPTEN, emscripten)
        if commit is None:
            raise ResolveError(f"there is no tag {emscripten!r}", on=f"{name}: {EMSCRIPTEN}")
        self._commit = commit
        if _numbers(emscripten) < _MARKER_SINCE:
            raise ResolveError(
                f"Emscripten {emscripten} cannot use ports that it did not fetch itself",
                on=name,
                hint=f"use {'.'.join(map(str, _MARKER_SINCE))} or newer",
            )

    def get(self, port: str, version: str | None = None) -> PortFile:
        """The port, with ``version`` in place of the pinned one."""
        path = _path(port)
        data = read(self._context, EMSCRIPTEN, self._commit, [path]).get(path)
        if data is None:
            raise self._unknown(port)
        if version is not None and not port_file.is_version(version):
            raise ResolveError(f"{version!r} cannot be a version", on=f"{self._name}.version")
        file = port_file.parse(data, port, origin(EMSCRIPTEN, self._commit, path), version=version)
        if file.remote is not None and _numbers(self.emscripten) < _REMOTE_SINCE:
            raise self._too_old(port)
        return file

    def closure(self, file: PortFile) -> list[PortFile]:
        """Everything that the port may need, itself not among it, by name."""
        found: dict[str, PortFile] = {}
        pending = list(file.dependencies)
        while pending:
            port = pending.pop()
            if port not in found and port != file.name:
                found[port] = self.get(port)
                pending.extend(found[port].dependencies)
        return [found[port] for port in sorted(found)]

    def _unknown(self, port: str) -> ResolveError:
        if port in _REMOTE_FROM_THE_START and _numbers(self.emscripten) < _REMOTE_SINCE:
            return self._too_old(port)
        names = self._names()
        near = difflib.get_close_matches(port, names, n=_SHOWN, cutoff=0.6)
        near += [known for known in names if port in known.split(".") and known not in near]
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names)}"
        return ResolveError(f"Emscripten {self.emscripten} has no port {port!r}", on=self._name, hint=hint)

    def _too_old(self, port: str) -> ResolveError:
        since = ".".join(map(str, _REMOTE_SINCE))
        return ResolveError(
            f"the port {port!r} needs Emscripten {since} or newer, and the environment has {self.emscripten}",
            on=self._name,
            hint=f'ask for a newer one: version = ">={since}"',
        )

    def _names(self) -> list[str]:
        found = []
        for directory, prefix in ((_DIRECTORY, ""), (f"{_DIRECTORY}/{_CONTRIBUTED}", f"{_CONTRIBUTED}.")):
            files = self._context.git.list(EMSCRIPTEN, self._commit, directory)
            found += [
                f"{prefix}{file[:-3]}" for file in files if file.endswith(".py") and file != "__init__.py"
            ]
        return sorted(found)


def _emscripten(name: str, request: PortTool, context: ResolveContext) -> str:
    """Version of the Emscripten whose pins count."""
    sdks = {
        key: tree.pins["emscripten"]
        for key, resolution in context.resolved.items()
        for tree in resolution.trees
        if tree.unpack == "emsdk" and "emscripten" in tree.pins
    }
    if request.of is not None:
        key = f"tools.{request.of}"
        if key not in sdks:
            raise ResolveError(f"{key} is no Emscripten SDK", on=f"{name}.of")
        return sdks[key]
    if len(sdks) == 1:
        return next(iter(sdks.values()))
    base = context.resolved.get("base")
    found = {
        match[1]
        for source in (base.sources if base is not None else ())
        if (match := re.match(r"pkg:deb/[^/]+/emscripten@(?:\d+(?::|%3[Aa]))?(\d+\.\d+\.\d+)", source.purl))
    }
    if len(found) == 1:
        return found.pop()
    there = f"several: {', '.join(sorted(found))}" if found else "none"
    raise ResolveError(
        f"a port is pinned by an Emscripten, and the environment has {there}",
        on=name,
        hint='add a tool with from = "emsdk", or the package "emscripten" to [base.debian]',
    )


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


def _path(port: str) -> str:
    prefix, _, rest = port.partition(".")
    if prefix == _CONTRIBUTED and rest:
        return f"{_DIRECTORY}/{_CONTRIBUTED}/{rest}.py"
    return f"{_DIRECTORY}/{port}.py"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
