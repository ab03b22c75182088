"""The submodules of a commit, and theirs: which repository and commit each is. Format: gitmodules(5).

A repository that comes from elsewhere must not reach what is here: a submodule of a remote repository is never a
local path, and no URL may name a transport helper, a command or an option. ``.gitmodules`` is read as data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from lockbuild.config.urls import carries_secret, redact
from lockbuild.errors import ResolveError
from lockbuild.resolve.context import ResolveContext
from lockbuild.transport.git.objects import is_below
from lockbuild.transport.git.place import fault_of

_MOST = 2000
_DEEPEST = 16
_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Submodule:
    """A commit of a repository and where in the whole tree it stands."""

    url: str
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class _Declared:
    url: str
    skipped: bool


def find_submodules(
    name: str,
    url: str,
    commit: str,
    wanted: bool | Sequence[str],
    exclude: Sequence[str],
    context: ResolveContext,
) -> list[Submodule]:
    """Every submodule that is ``wanted``: all, or those at these paths with what is in them. By path.

    None that stands at or below a path of ``exclude``.

    ``name`` is the manifest key, for messages. ResolveError for a path that is no submodule, and for a submodule
    that has no URL or one that must not be used; FetchError where a repository cannot be read.
    """
    paths = None if isinstance(wanted, bool) else [path.strip("/") for path in wanted]
    found: list[Submodule] = []
    level = [Submodule(url, commit, "")]
    offered: set[str] = set()
    for _ in range(_DEEPEST):
        below = _several(level, paths, context)
        level = [submodule for submodules, _ in below for submodule in submodules]
        level = [each for each in level if not is_below(os.fsencode(each.at), exclude)]
        offered.update(path for _, others in below for path in others)
        found += level
        if len(found) > _MOST:
            break
        if not level:
            _check_paths(name, paths, found, offered)
            return sorted(found, key=lambda submodule: submodule.at)
    raise ResolveError(
        f"there are more than {_MOST} submodules, or they are nested more than {_DEEPEST} deep",
        on=f"{name}.submodules: {redact(url)}",
        hint="name the submodules that are needed",
    )


def _several(
    parents: Sequence[Submodule], paths: Sequence[str] | None, context: ResolveContext
) -> list[tuple[list[Submodule], list[str]]]:
    """`_below` for several at once: mostly that is waiting for servers."""
    pool = ThreadPoolExecutor(_WORKERS)
    try:
        return list(pool.map(lambda parent: _below(parent, paths, context), parents))
    except BaseException as error:
        if not isinstance(error, Exception):  # an interrupt waits for no server
            context.git.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _below(
    parent: Submodule, paths: Sequence[str] | None, context: ResolveContext
) -> tuple[list[Submodule], list[str]]:
    """The wanted submodules of one commit, and the paths of all of them."""
    links = {
        os.fsdecode(entry.path): entry.object_id
        for entry in context.git.contents(parent.url, parent.commit).entries
        if entry.kind == "submodule"
    }
    if not links:
        return [], []
    data = context.git.read(parent.url, parent.commit, ".gitmodules") or b""
    declared = _declared(data, parent, context)
    found: list[Submodule] = []
    for path, commit in sorted(links.items()):
        at = f"{parent.at}/{path}" if parent.at else path
        module = declared.get(path)
        named = paths is not None
        if named and not _is_wanted(at, paths or ()):
            continue
        on = f"{redact(parent.url)} at {parent.commit}: {path}"
        if module is None:
            raise ResolveError(
                "the submodule has no URL in .gitmodules", on=on, hint="name the submodules that are needed"
            )
        if module.skipped and not named:
            continue
        found.append(Submodule(_absolute(module.url, parent.url, on), commit, at))
    return found, [f"{parent.at}/{path}" if parent.at else path for path in links]


def _is_wanted(at: str, paths: Sequence[str]) -> bool:
    """Whether it is one of ``paths``, in one of them, or leads to one."""
    return any(at == path or at.startswith(f"{path}/") or path.startswith(f"{at}/") for path in paths)


def _check_paths(
    name: str, paths: Sequence[str] | None, found: Sequence[Submodule], offered: set[str]
) -> None:
    known = {submodule.at for submodule in found}
    for path in paths or ():
        if not any(at == path or at.startswith(f"{path}/") for at in known):
            there = ", ".join(sorted(offered)) or "none"
            raise ResolveError(
                f"there is no submodule at {path!r} (there is: {there})", on=f"{name}.submodules"
            )


def _declared(data: bytes, parent: Submodule, context: ResolveContext) -> Mapping[str, _Declared]:
    """What .gitmodules says, by path."""
    try:
        pairs = context.git.configuration(data)
    except ValueError as error:
        raise ResolveError(f".gitmodules cannot be read: {error}", on=_place(parent)) from None
    sections: dict[str, dict[str, str]] = {}
    for key, value in pairs:
        section, _, variable = key.rpartition(".")
        kind, _, module = section.partition(".")
        if kind == "submodule" and module:
            sections.setdefault(module, {})[variable] = value
    return {
        fields["path"].rstrip("/"): _Declared(fields["url"], fields.get("update") == "none")
        for fields in sections.values()
        if "path" in fields and "url" in fields
    }


def _place(parent: Submodule) -> str:
    return f"{redact(parent.url)} at {parent.commit}: .gitmodules"


def _absolute(url: str, parent: str, on: str) -> str:
    """The URL of a submodule whose parent is at ``parent``; ResolveError where it must not be used."""
    local = urlsplit(parent).scheme == "file"
    if url.startswith(("./", "../")):
        absolute = _joined(parent, url)
    elif url.startswith("/"):
        absolute = f"file://{url}"
    elif "://" not in url and "::" not in url and "@" in url.partition(":")[0] and ":" in url:
        host, _, path = url.partition(":")  # the way in which scp(1) names a place
        absolute = f"ssh://{host}/{path.lstrip('/')}"
    else:
        absolute = url
    fault = "it leaves its host" if absolute is None else fault_of(absolute)
    if absolute is not None and fault is None and absolute.startswith("file://") and not local:
        fault = "a repository from elsewhere must not lead to local files"
    if (
        absolute is not None
        and fault is None
        and not absolute.startswith("ssh://")
        and carries_secret(absolute)
    ):
        fault = "it holds a credential, which must not stand in a lock"
    if absolute is None or fault is not None:
        raise ResolveError(
            f"the URL of the submodule, {redact(url) if '://' in url else repr(url)}, must not be used: {fault}",
            on=on,
            hint="name the submodules that are needed, without this one",
        )
    return absolute


def _joined(parent: str, url: str) -> str | None:
    """A relative URL of .gitmodules: each ``../`` drops one component of the parent's; None where it has none left."""
    parts = urlsplit(parent)
    path = parts.path.rstrip("/")
    while True:
        if url.startswith("./"):
            url = url[2:]
        elif url.startswith("../"):
            url = url[3:]
            if not path:
                return None
            path = path.rpartition("/")[0]
        else:
            break
    if ".." in url.split("/") or not url.strip("/"):
        return None
    return urlunsplit(parts._replace(path=f"{path}/{url.strip('/')}"))
