"""What a manifest can ask for: one class for each value of ``from``.

A request says *what is wanted*. `lockbuild.resolve` has, for each class here, one module that
turns it into locked sources.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PINNED_PACKAGE = re.compile(rf"{_PACKAGE.pattern}(?:=[A-Za-z0-9.+~:-]+)?")
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
MountPath = Annotated[str, AfterValidator(_mount), _said(r"/opt(?:/(?!\.\.?(?:/|$))[^/]+)+")]
Sha256 = Annotated[str, AfterValidator(_sha256), _said("[0-9a-f]{64}")]
Environment = dict[Variable, str]


class DebianBase(FileModel):
    """``[base.debian]``: the closure of some packages of a Debian suite, as the root file system."""

    suite: Name
    """Suite or codename, as ``forky``."""
    packages: list[WantedDebianPackage] = []
    """Packages to have beside the Essential ones, each ``name`` or ``name=version``."""
    components: list[Name] = ["main"]
    """Components of the archive to look in."""
    snapshot: SnapshotTime | None = None
    """The moment at which to read the suite, from the configured snapshot service."""
    allow_expired: bool = False
    """Accept a signed index that is past its Valid-Until; the lock records it."""


class PypiRequest(FileModel):
    """``from = "pypi"``: wheels for a requirement and what it depends on."""

    from_: Literal["pypi"]
    """The Python package index."""
    requirement: Annotated[str, AfterValidator(_requirement)]
    """A dependency specifier (PEP 508) without a URL, as ``cmake>=3.31,<3.32``."""


class ArchiveRequest(FileModel):
    """``from = "archive"``: an archive at a URL with a known SHA-256."""

    from_: Literal["archive"]
    """A tar (plain, gzip, xz, bzip2, zstd) or zip at a URL."""
    url: Annotated[str, Field(pattern=r"^(https?|file)://")]
    """Where it is: http, https or file, without credentials."""
    sha256: Sha256
    """SHA-256 of the archive file: 64 lower-case hex digits."""
    strip: Annotated[int, Field(ge=0, le=32)] = 1
    """Leading components of each path to drop."""


class DebianSourceRequest(FileModel):
    """``from = "debian-source"``: the upstream archive of a Debian source package."""

    from_: Literal["debian-source"]
    """The upstream archive (``.orig.tar.*``) of a Debian source package, without its first path component."""
    package: DebianPackage
    """Name of the source package."""
    suite: Name
    """Suite or codename, as ``trixie``; its newest version is taken."""
    components: list[Name] = ["main"]
    """Components of the archive to look in."""
    snapshot: SnapshotTime | None = None
    """The moment at which to read the suite, from the configured snapshot service."""
    allow_expired: bool = False
    """Accept a signed index that is past its Valid-Until; the lock records it."""


class PathRequest(FileModel):
    """``from = "path"``: a directory of the project, locked by its tree digest."""

    from_: Literal["path"]
    """A directory of the project."""
    path: RelativePath
    """The directory, relative to the project; git's ignore rules apply."""


class _Tool(FileModel):
    """What every tool can say beside where it comes from."""

    mount: MountPath | None = None
    """Where it stands in the environment: a path below /opt; by default ``/opt/NAME``."""
    exports: Environment = {}
    """Variables for every process in the environment; ``$OUT`` in a value is the mount point."""


class PypiTool(_Tool, PypiRequest):
    """A tool from the Python package index."""


class ArchiveTool(_Tool, ArchiveRequest):
    """A tool from an archive."""


ToolRequest = Annotated[PypiTool | ArchiveTool, Field(discriminator="from_")]
SourceRequest = Annotated[ArchiveRequest | DebianSourceRequest | PathRequest, Field(discriminator="from_")]
Request = DebianBase | PypiTool | ArchiveTool | ArchiveRequest | DebianSourceRequest | PathRequest
