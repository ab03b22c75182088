"""What a manifest can ask for: one class for each value of ``from``.

A request says *what is wanted*. `lockbuild.resolve` has, for each class here, one module that
turns it into locked sources.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PINNED_PACKAGE = re.compile(rf"{_PACKAGE.pattern}(?:=[A-Za-z0-9.+~:-]+)?")
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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


def _mount(value: str) -> str:
    path = PurePosixPath(value)
    parts = path.parts
    if len(parts) < 3 or parts[:2] != ("/", "opt") or ".." in parts or str(path) != value:
        raise ValueError(f"{value!r} is not a path below /opt; tools are mounted there")
    return value


def _requirement(value: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(f"{value!r} is not a requirement (PEP 508): {str(error).splitlines()[0]}") from None
    if requirement.url:
        raise ValueError(f'{value!r} names a URL; use from = "archive" with its sha256')
    return value


def _sha256(value: str) -> str:
    Digest(value)
    return value


Name = Annotated[str, _matching(_NAME, "a name (letters, digits, '.', '_', '-')")]
DebianPackage = Annotated[str, _matching(_PACKAGE, "a Debian package name")]
WantedDebianPackage = Annotated[
    str, _matching(_PINNED_PACKAGE, "a Debian package name, with or without =version")
]
SnapshotTime = Annotated[str, _matching(_TIMESTAMP, "a snapshot time, as 20261101T000000Z")]
Variable = Annotated[str, _matching(_VARIABLE, "the name of an environment variable")]
RelativePath = Annotated[str, AfterValidator(_relative)]
MountPath = Annotated[str, AfterValidator(_mount)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
Environment = dict[Variable, str]


class DebianBase(FileModel):
    """``[base.debian]``: the closure of some packages of a Debian suite, as the root file system.

    A package is written ``name`` or ``name=version``.
    """

    suite: Name
    packages: list[WantedDebianPackage] = []
    components: list[Name] = ["main"]
    snapshot: SnapshotTime | None = None
    allow_expired: bool = False


class PypiRequest(FileModel):
    """``from = "pypi"``: wheels for a requirement and what it depends on."""

    from_: Literal["pypi"]
    requirement: Annotated[str, AfterValidator(_requirement)]


class ArchiveRequest(FileModel):
    """``from = "archive"``: an archive at a URL with a known SHA-256."""

    from_: Literal["archive"]
    url: Annotated[str, Field(pattern=r"^(https?|file)://")]
    sha256: Sha256
    strip: Annotated[int, Field(ge=0, le=32)] = 1


class DebianSourceRequest(FileModel):
    """``from = "debian-source"``: the upstream archive of a Debian source package."""

    from_: Literal["debian-source"]
    package: DebianPackage
    suite: Name
    components: list[Name] = ["main"]
    snapshot: SnapshotTime | None = None
    allow_expired: bool = False


class PathRequest(FileModel):
    """``from = "path"``: a directory of the project, locked by its tree digest."""

    from_: Literal["path"]
    path: RelativePath


class _Tool(FileModel):
    """What every tool can say beside where it comes from."""

    mount: MountPath | None = None
    exports: Environment = {}


class PypiTool(_Tool, PypiRequest):
    """A tool from the Python package index."""


class ArchiveTool(_Tool, ArchiveRequest):
    """A tool from an archive."""


ToolRequest = Annotated[PypiTool | ArchiveTool, Field(discriminator="from_")]
SourceRequest = Annotated[ArchiveRequest | DebianSourceRequest | PathRequest, Field(discriminator="from_")]
Request = DebianBase | PypiTool | ArchiveTool | ArchiveRequest | DebianSourceRequest | PathRequest
