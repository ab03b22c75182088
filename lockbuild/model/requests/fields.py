"""The kinds of values that requests are made of: names, paths, digests, revisions, each with its rule said once."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from lockbuild.model.digest import Digest
from lockbuild.model.wildmatch import expression

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PINNED_PACKAGE = re.compile(rf"{_PACKAGE.pattern}(?:=[A-Za-z0-9.+~:-]+)?")
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"(?!-)(?!.*(?:\.\.|@\{|//|\.lock(?:/|$)))[^\s~^:?*\[\\\x00-\x20\x7f]+(?<![/.])")
_COMPARISON = r" *(?:[<>]=?|[=!]=) *[0-9]+(?:\.[0-9]+)*"
_PLAIN_REQUIREMENT = re.compile(
    rf"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:{_COMPARISON}(?:,{_COMPARISON})*)?"
)
"""What nearly all requirements look like; a parser of the whole grammar costs each command 10 ms to import."""
_GIT_SCHEMES = ("https", "http", "ssh", "file")


def _said(pattern: str) -> Any:
    """The same rule for editors: the keyword ``pattern`` of JSON Schema."""
    return Field(json_schema_extra={"pattern": f"^{pattern}$"})


def _matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is not {wanted}")
        return value

    return AfterValidator(check)


def _relative(value: str) -> str:
    path = PurePosixPath(value)
    if not value or "\0" in value or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} leaves the project; write a relative path without '..'")
    return value


def _pattern(value: str) -> str:
    try:
        expression(str(PurePosixPath(value)).encode())
    except ValueError as error:
        raise ValueError(
            f"{value!r} can match nothing: {error}; a backslash makes the character behind it literal"
        ) from None
    return value


def _mount(value: str) -> str:
    path = PurePosixPath(value)
    parts = path.parts
    if len(parts) < 3 or parts[:2] != ("/", "opt") or ".." in parts or str(path) != value:
        raise ValueError(f"{value!r} is not a path below /opt; tools are mounted there")
    return value


def requirement(value: str) -> str:
    """A dependency specifier (PEP 508) that names no URL."""
    if _PLAIN_REQUIREMENT.fullmatch(value):
        return value
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        parsed = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(f"{value!r} is not a requirement (PEP 508): {str(error).splitlines()[0]}") from None
    if parsed.url:
        raise ValueError(f'{value!r} names a URL; use from = "archive" with its sha256')
    return value


def _sha256(value: str) -> str:
    Digest(value)
    return value


def _archive_url(value: str) -> str:
    _url_parts(value)
    return value


def _url_parts(value: str) -> SplitResult:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{value!r} is not a URL: {error}") from None
    if not value.isprintable():
        raise ValueError(f"{value!r} is not a URL: a character in it must be percent-encoded")
    return parts


def _git_url(value: str) -> str:
    parts = _url_parts(value)
    if parts.scheme not in _GIT_SCHEMES or not parts.path.strip("/"):
        raise ValueError(f"{value!r} is not the URL of a repository ({', '.join(_GIT_SCHEMES)})")
    if parts.scheme != "file" and not parts.hostname:
        raise ValueError(f"{value!r} names no host")
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ValueError("a URL in a manifest has no credentials; give them in .netrc or the configuration")
    return value


Name = Annotated[str, _matching(_NAME, "a name (letters, digits, '.', '_', '-')"), _said(_NAME.pattern)]
DebianPackage = Annotated[str, _matching(_PACKAGE, "a Debian package name"), _said(_PACKAGE.pattern)]
WantedDebianPackage = Annotated[
    str,
    _matching(_PINNED_PACKAGE, "a Debian package name, with or without =version"),
    _said(_PINNED_PACKAGE.pattern),
]
SnapshotTime = Annotated[
    str, _matching(_TIMESTAMP, "a snapshot time, as 20261101T000000Z"), _said(_TIMESTAMP.pattern)
]
Variable = Annotated[
    str, _matching(_VARIABLE, "the name of an environment variable"), _said(_VARIABLE.pattern)
]
RelativePath = Annotated[str, AfterValidator(_relative), _said(r"(?!/)(?!(?:.*/)?\.\.(?:/|$)).+")]
RelativePattern = Annotated[RelativePath, AfterValidator(_pattern)]
MountPath = Annotated[str, AfterValidator(_mount), _said(r"/opt(?:/(?!\.\.?(?:/|$))[^/]+)+")]
Sha256 = Annotated[str, AfterValidator(_sha256), _said("[0-9a-f]{64}")]
ArchiveUrl = Annotated[str, Field(pattern=r"^(https?|file)://"), AfterValidator(_archive_url)]
GitUrl = Annotated[str, AfterValidator(_git_url), _said("(?:https?|ssh|file)://.+")]
Commit = Annotated[
    str, _matching(_COMMIT, "a full commit id (40 lower-case hex digits)"), _said(_COMMIT.pattern)
]
Revision = Annotated[str, _matching(_REVISION, "a tag, a branch or a commit")]
Environment = dict[Variable, str]
