"""``from = "dawn"``: Dawn at the commit that a release of emdawnwebgpu was made from.

Releases are tags of Dawn's repository and named as the port's version. The tag alone says which commit that is:
what port files say of it in passing can be that of an earlier release. Which release it is says the port in the
environment; where that is not there, because it is to be made from Dawn, what the environment's Emscripten pins.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from lockbuild.errors import ResolveError
from lockbuild.model.platform import Platform
from lockbuild.model.requests import BINDINGS, DawnRequest, DawnTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.emscripten.pinned import PinnedPorts, emscripten_of
from lockbuild.resolve.git import lock_commit

URL = "https://dawn.googlesource.com/dawn"
"""Dawn's repository. Its copy at GitHub, where releases are tagged, is known to `GitRepositories`."""


def resolve(
    name: str, request: DawnRequest | DawnTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock Dawn at the tag that is the release's version. Errors are those of `lockbuild.resolve.git`.

    No archive of the port is needed. ResolveError where nothing says which release it is.
    """
    pins = _release(name, request, context)
    revision = context.git.revision(URL, f"refs/tags/{pins['tag']}")
    return lock_commit(name, request, URL, revision, context, pins=pins)


def commit_behind(version: str, context: ResolveContext) -> str | None:
    """The commit of Dawn that the release ``version`` of emdawnwebgpu was made from; None where no tag is called so."""
    try:
        return context.git.revision(URL, f"refs/tags/{version}").commit
    except ResolveError:
        return None


def _release(name: str, request: DawnRequest | DawnTool, context: ResolveContext) -> dict[str, str]:
    """The release as pins: ``tag``, and ``emscripten`` where that pins it."""
    if request.version is not None:
        return {"tag": request.version}
    port = _port(name, request.of, context)
    return {"tag": port} if port is not None else _pinned(name, request.of, context)


def _port(name: str, of: str, context: ResolveContext) -> str | None:
    """The version of the port that is the tool ``of`` or, by default, has its name; None where there is none."""
    found = {
        tree.pins["version"]
        for key, resolution in context.resolved.items()
        for tree in resolution.trees
        if tree.unpack == "port" and tree.name == key and "version" in tree.pins
        if key == f"tools.{of}" or (of == BINDINGS and PurePosixPath(tree.mount).name == BINDINGS)
    }
    if len(found) > 1:
        raise ResolveError(f"there are several of them: {', '.join(sorted(found))}", on=f"{name}.of")
    return found.pop() if found else None


def _pinned(name: str, of: str, context: ResolveContext) -> dict[str, str]:
    """What an Emscripten pins: that of the tool ``of``, or by default of the environment."""
    try:
        emscripten = emscripten_of(name, None if of == BINDINGS else of, context)
        version = PinnedPorts(name, emscripten, context).get(BINDINGS).version
    except ResolveError as error:
        said = 'or say which release of emdawnwebgpu it is: version = "v20251002.162335"'
        error.hint = f"{error.hint}; {said}" if error.hint else said
        raise
    if version is None:
        raise ResolveError(f"the port {BINDINGS} of Emscripten {emscripten} has no version", on=name)
    return {"tag": version, "emscripten": emscripten}
