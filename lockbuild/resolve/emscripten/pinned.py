"""The port files of the environment's Emscripten: what it pins, and what needs what."""

from __future__ import annotations

import difflib
import re

from lockbuild.errors import ResolveError
from lockbuild.model.requests import BINDINGS
from lockbuild.resolve.context import ResolveContext
from lockbuild.resolve.emscripten import port_file
from lockbuild.resolve.emscripten.port_file import PortFile
from lockbuild.resolve.emscripten.repositories import EMSCRIPTEN, origin, read, tagged

_DIRECTORY = "tools/ports"
_CONTRIBUTED = "contrib"
_REMOTE_SINCE = (4, 0, 10)
"""The first Emscripten that can use a port whose port file is in its archive."""
_MARKER_SINCE = (2, 0, 16)
"""The first Emscripten that looks for a marker, and takes what stands beside it."""
_REMOTE_FROM_THE_START = (BINDINGS,)
_SHOWN = 5


class PinnedPorts:
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


def emscripten_of(name: str, of: str | None, context: ResolveContext) -> str:
    """Version of the Emscripten whose pins count for what stands under ``name`` in the manifest.

    That is the SDK that is the tool ``of``; without it the only SDK there is, else Emscripten in the base.
    ResolveError where there is none, or not just one.
    """
    sdks = {
        key: tree.pins["emscripten"]
        for key, resolution in context.resolved.items()
        for tree in resolution.trees
        if tree.unpack == "emsdk" and "emscripten" in tree.pins
    }
    if of is not None:
        key = f"tools.{of}"
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


def _path(port: str) -> str:
    prefix, _, rest = port.partition(".")
    if prefix == _CONTRIBUTED and rest:
        return f"{_DIRECTORY}/{_CONTRIBUTED}/{rest}.py"
    return f"{_DIRECTORY}/{port}.py"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
