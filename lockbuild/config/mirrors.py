"""Mirrors: which places are asked in the place of a URL, and where bytes may be found by their digest alone.

A lock names canonical URLs; a mirror says for everything below a prefix where it is really to be had. What
comes from there is verified as ever, so a mirror need not be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, model_validator

from lockbuild.config.fields import Place, Section, Url
from lockbuild.config.urls import origin, without_secret_parameters

_DIGEST = re.compile(r"\{(sha256|sha512)\}")


def _template(value: str) -> str:
    if not _DIGEST.search(value) or re.search(r"[{}]", _DIGEST.sub("", value)):
        raise ValueError("must have {sha256} or {sha512} where the digest goes, and no other braces")
    if re.search(r"[{}]", value.partition("://")[2].partition("/")[0]):
        raise ValueError("must not have the digest in the host's place")
    return value


class Mirror(Section):
    """``[[mirrors]]``: another place for what is below a prefix, or for everything by its digest."""

    prefix: Place | None = None
    """What URLs begin with that are had elsewhere, up to the end of a path component; the longest one wins."""
    to: Annotated[list[Place], Field(min_length=1)] | None = None
    """What to put in the place of ``prefix``, tried in order. The original place is tried only if it is listed."""
    by_digest: Annotated[Url, AfterValidator(_template)] | None = None
    """Where a file is by the hexadecimal digest of its bytes, with ``{sha256}`` or ``{sha512}`` in its place. Tried
    before any other place. Derived trees that the lock records are asked for, too: a tree's digest is that of its
    canonical tar."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Mirror:
        given = (self.prefix is not None, self.to is not None, self.by_digest is not None)
        if given not in ((True, True, False), (False, False, True)):
            raise ValueError("has either prefix and to, or by-digest")
        return self


def places(mirrors: Iterable[Mirror], url: str) -> list[str]:
    """Where to look for ``url``, in order, each once; ``url`` itself where no mirror is for it.

    A user name and password, and parameters of the query that look like secrets, stay with the origin that they
    were given for. A URL whose path climbs out of where it begins (``..``) has no mirror.
    """
    try:
        wanted = _split(url)
    except ValueError:
        return [url]
    best, found = -1, [url]
    for mirror in mirrors:
        if mirror.prefix is None or mirror.to is None:
            continue
        rest = _rest(_split(mirror.prefix), wanted)
        if rest is None:
            continue
        length = len(_directory(urlsplit(mirror.prefix)))
        if length > best:
            best, found = length, []
        if length == best:
            found += [_joined(to, rest, wanted) for to in mirror.to]
    return list(dict.fromkeys(found))


def by_digest(mirrors: Iterable[Mirror], *, sha256: str | None, sha512: str | None) -> Iterator[str]:
    """Where bytes with these digests (hexadecimal digits) may be, in the order of the file."""
    known = {"sha256": sha256, "sha512": sha512}
    for mirror in mirrors:
        template = mirror.by_digest
        if template is not None and all(known[name] for name in _DIGEST.findall(template)):
            yield _DIGEST.sub(lambda match: known[match[1]] or "", template)


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    _ = parts.port  # ValueError where it is none
    return parts


def _directory(prefix: SplitResult) -> str:
    return prefix.path.rstrip("/").removesuffix(".git")


def _rest(prefix: SplitResult, wanted: SplitResult) -> str | None:
    """What follows ``prefix`` in the path; None where it is not below it. Repositories may be called so or so.git."""
    if origin(prefix) != origin(wanted):
        return None
    directory = _directory(prefix)
    if not wanted.path.startswith(directory):
        return None
    rest = wanted.path[len(directory) :]
    if rest == ".git" or rest.startswith(".git/"):
        rest = rest.removeprefix(".git")
    if rest and not rest.startswith("/"):
        return None
    return None if ".." in re.split(r"[/\\]", unquote(rest)) else rest


def _joined(to: str, rest: str, wanted: SplitResult) -> str:
    place = urlsplit(to)
    same = origin(place) == origin(wanted)
    query = wanted.query if same else without_secret_parameters(wanted.query)
    netloc = wanted.netloc if same and "@" not in place.netloc else place.netloc
    path = place.path.rstrip("/") + rest if rest else place.path
    return urlunsplit((place.scheme, netloc, path, query or place.query, ""))
