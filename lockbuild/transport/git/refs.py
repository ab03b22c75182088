"""The references of a repository as ``git ls-remote`` lists them, and which commit a revision means."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from lockbuild.errors import ResolveError
from lockbuild.transport.git.objects import is_object_id

_TAG, _BRANCH = "refs/tags/", "refs/heads/"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision means: a commit, and the ``reference`` that says so (None for a commit id)."""

    commit: str
    reference: str | None


def parse(listing: bytes, url: str) -> dict[str, str]:
    """Full name -> commit id, annotated tags peeled. ResolveError for a repository of another hash."""
    found: dict[str, str] = {}
    peeled: dict[str, str] = {}
    for line in listing.decode("utf-8", "surrogateescape").splitlines():
        object_id, _, name = line.partition("\t")
        if len(object_id) == 64:
            raise ResolveError("it is a repository with SHA-256 object ids, which is not supported", on=url)
        if not is_object_id(object_id) or not name:
            continue
        if name.endswith("^{}"):
            peeled[name[:-3]] = object_id
        else:
            found[name] = object_id
    return found | peeled


def find(refs: Mapping[str, str], rev: str) -> Revision | None:
    """What ``rev`` means among ``refs``: a full name, else a tag, else a branch."""
    names = [rev] if rev.startswith("refs/") else [_TAG + rev, _BRANCH + rev]
    return next((Revision(refs[name], name) for name in names if name in refs), None)


def unknown(refs: Mapping[str, str], rev: str, url: str) -> ResolveError:
    """The error for a revision that there is not, with those that are like it."""
    rev = short_name(rev)
    names = dict.fromkeys(short_name(name) for name in refs)
    near = [name for name in names if name.startswith(rev)][-_SHOWN:]
    near += [name for name in difflib.get_close_matches(rev, names, n=_SHOWN, cutoff=0.6) if name not in near]
    near = near or [short_name(name) for name in refs if name.startswith(_TAG)][-_SHOWN:]
    hint = f"there is {', '.join(near[:_SHOWN])}" if near else None
    if len(rev) >= 7 and set(rev) <= set("0123456789abcdef"):
        hint = "name a commit by its full id of 40 hexadecimal digits"
    return ResolveError(f"there is no tag or branch {rev!r}", on=url, hint=hint)


def short_name(reference: str) -> str:
    """``refs/tags/v1`` -> ``v1``."""
    return reference.removeprefix(_TAG).removeprefix(_BRANCH)


def described(reference: str) -> str:
    """For people: ``refs/tags/v1`` -> ``tag v1``."""
    kind = "tag" if reference.startswith(_TAG) else "branch" if reference.startswith(_BRANCH) else "reference"
    return f"{kind} {short_name(reference)}"
