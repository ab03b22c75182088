"""``from = "dawn"``: Dawn at the commit that a release of emdawnwebgpu was made from.

Releases are tags of Dawn's repository and named as the port's version. The tag alone says which commit that is:
what port files say of it in passing can be that of an earlier release.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockbuild.errors import ResolveError
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DawnRequest, DawnTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.git import lock_commit

URL = "https://dawn.googlesource.com/dawn"
"""Dawn's repository. Its copy at GitHub, where releases are tagged, is known to `GitRepositories`."""


def resolve(
    name: str, request: DawnRequest | DawnTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock Dawn at the tag that is the version of the port ``of``. Errors are those of `lockbuild.resolve.git`."""
    version = _version(name, request.of, context)
    revision = context.git.revision(URL, f"refs/tags/{version}")
    return lock_commit(name, request, URL, revision, context, pins={"tag": version})


def commit_behind(version: str, context: ResolveContext) -> str | None:
    """The commit of Dawn that the release ``version`` of emdawnwebgpu was made from; None where no tag is called so."""
    try:
        return context.git.revision(URL, f"refs/tags/{version}").commit
    except ResolveError:
        return None


def _version(name: str, of: str, context: ResolveContext) -> str:
    port = context.resolved.get(f"tools.{of}")
    versions = {tree.pins["version"] for tree in port.trees if "version" in tree.pins} if port else set()
    if port is None:
        raise ResolveError(
            f"there is no tool {of!r} whose version names the tag of Dawn",
            on=f"{name}.of",
            hint=f'add [tools.{of}] with from = "port", or name the tool that is the port emdawnwebgpu',
        )
    if len(versions) != 1:
        raise ResolveError(
            f"the tool {of!r} has no version that could be a tag of Dawn",
            on=f"{name}.of",
            hint="name the port",
        )
    return versions.pop()
