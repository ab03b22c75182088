"""``from = "git"``: the tree of a commit, with the submodules that are wanted, each a source of its own.

The package URL is ``pkg:github/owner/name@commit`` where the repository is there, else ``pkg:generic`` with the
qualifier ``vcs_url``. A reference is asked for once, when it is locked; the lock has the commit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from lockbuild.errors import ResolveError
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DawnRequest, DawnTool, GitRequest, GitTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.submodules import find_submodules
from lockbuild.transport.git.refs import described
from lockbuild.transport.git.repositories import Revision


def resolve(
    name: str, request: GitRequest | GitTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the commit that the revision means: one tree, the same on every platform.

    ResolveError where there is no such revision or a submodule cannot be had; FetchError where the repository
    cannot be read. Nothing of the commit is fetched but what is needed for submodules and descriptions.
    """
    revision = context.git.revision(request.url, request.rev)
    pins = {"rev": request.rev}
    return lock_commit(name, request, request.url, revision, context, pins=pins)


def lock_commit(
    name: str,
    request: GitRequest | GitTool | DawnRequest | DawnTool,
    url: str,
    revision: Revision,
    context: ResolveContext,
    *,
    pins: dict[str, str],
) -> Resolution:
    """Lock ``revision`` of the repository ``url`` with what ``request`` wants of it."""
    if request.lfs == "fetch":
        raise ResolveError(
            "files of git LFS cannot be fetched yet",
            on=f"{name}.lfs",
            hint="leave lfs out; a repository that has such files is refused with their names, get those by "
            'from = "archive"',
        )
    commit = revision.commit
    pins = {**pins, "commit": commit}
    if revision.reference is not None:
        pins["ref"] = revision.reference
    parameters = _description(url, commit, context) if request.describe else {}
    if "describe" in parameters:
        pins["describe"] = _short(parameters)
    short = name.partition(".")[2] or name
    tree = LockedTree(
        name=name,
        platform="any",
        unpack="git",
        mount=(request.mount or f"/opt/{short}")
        if isinstance(request, GitTool | DawnTool)
        else f"{SOURCES_DIR}/{short}",
        parameters=parameters,
        pins=pins,
        exports=_exports(request) if isinstance(request, GitTool | DawnTool) else {},
    )
    exclude = sorted({path.strip("/") for path in request.exclude})
    places: list[tuple[str, str, str | None]] = [(url, commit, None)]
    if request.describe:
        places.append((url, commit, ".git"))
    if request.submodules:
        found = find_submodules(name, url, commit, request.submodules, exclude, context)
        places += [(submodule.url, submodule.commit, submodule.at) for submodule in found]
    left_out = _left_out(name, exclude, places, context)
    sources = tuple(
        Source(
            purl=purl(where, what),
            url=where,
            commit=what,
            at=at,
            exclude=left_out[at] or None,
            trees=[tree.id],
        )
        for where, what, at in places
    )
    return Resolution((tree,), sources)


def _exports(request: GitTool | DawnTool) -> dict[str, str]:
    """Tools belong to root where a container runs them, and git reads nobody else's repository by itself."""
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    return {**(own if request.describe else {}), **request.exports}


def _left_out(
    name: str, exclude: Sequence[str], places: Sequence[tuple[str, str, str | None]], context: ResolveContext
) -> dict[str | None, list[str]]:
    """What each of ``places`` is without: paths relative to it. ResolveError for a path that is nowhere."""
    found: dict[str | None, list[str]] = {at: [] for _, _, at in places}
    inner = sorted((at for _, _, at in places if at not in (None, ".git")), key=lambda at: -len(at or ""))
    for path in exclude:
        at = next((at for at in inner if path.startswith(f"{at}/")), None)
        url, commit = next((url, commit) for url, commit, place in places if place == at)
        rest = path.removeprefix(f"{at}/") if at else path
        if not any(entry.path == os.fsencode(rest) for entry in context.git.contents(url, commit).entries):
            raise ResolveError(f"there is no {path!r} to leave out", on=f"{name}.exclude")
        found[at].append(rest)
    if ".git" in found:
        found[".git"] = found[None]
    return found


def moved_tags(before: Resolution, after: Resolution) -> list[str]:
    """What to tell of tags that are another commit now than when they were locked: tags should not move."""
    known = {tree.id: tree.pins for tree in before.trees if tree.unpack == "git"}
    return [
        f"{tree.name}: the {described(pins['ref'])} moved from {old['commit']} to {pins['commit']}"
        for tree in after.trees
        if (old := known.get(tree.id)) is not None
        and (pins := tree.pins).get("ref", "").startswith("refs/tags/")
        and pins["ref"] == old.get("ref")
        and pins["commit"] != old.get("commit")
    ]


def purl(url: str, commit: str) -> str:
    """The package URL of a commit. Specification: purl-spec, the types ``github`` and ``generic``."""
    from packageurl import PackageURL

    parts = urlsplit(url)
    path = parts.path.strip("/").removesuffix(".git")
    owner, _, name = path.rpartition("/")
    if parts.hostname == "github.com" and owner and "/" not in owner:
        return PackageURL("github", owner.lower(), name.lower(), commit).to_string()
    return PackageURL(
        "generic",
        name=name or path or "repository",
        version=commit,
        qualifiers={"vcs_url": f"git+{url}@{commit}"},
    ).to_string()


def _description(url: str, commit: str, context: ResolveContext) -> dict[str, str]:
    """The parameters from which a ``.git`` is made; see `lockbuild.environment.git`."""
    said = context.git.describe(url, commit)
    parameters = {"abbrev": str(said.abbrev), "describe": commit}
    if said.tag is not None:
        parameters["describe"] = f"{said.tag.name}-{said.tag.distance}-g{commit}"
    if said.annotated is not None:
        parameters["describe-annotated"] = f"{said.annotated.name}-{said.annotated.distance}-g{commit}"
    return parameters


def _short(parameters: dict[str, str]) -> str:
    """What ``git describe --tags --always`` says."""
    text, abbrev = parameters["describe"], int(parameters["abbrev"])
    tag, _, rest = text.rpartition("-g")
    if not tag:
        return text[:abbrev]
    name, _, distance = tag.rpartition("-")
    return name if distance == "0" else f"{tag}-g{rest[:abbrev]}"
