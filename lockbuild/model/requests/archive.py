"""Requests for archives at a URL, and for directories of the project."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from lockbuild.model.requests.fields import ArchiveUrl, RelativePath, Sha256
from lockbuild.model.requests.request import Request
from lockbuild.model.requests.tool import Tool


class ArchiveRequest(Request):
    """``from = "archive"``: an archive at a URL with a known SHA-256."""

    from_: Literal["archive"]
    """A tar (plain, gzip, xz, bzip2, zstd) or zip at a URL."""
    url: ArchiveUrl
    """Where it is: http, https or file, without credentials."""
    trust: Literal["first-use"] | None = None
    """Download the archive when it is locked, and take what comes; the lock says so."""
    sha256: Annotated[Sha256 | None, Field(validate_default=True)] = None
    """SHA-256 of the archive file: 64 lower-case hex digits. Only ``trust = "first-use"`` does without."""
    strip: Annotated[int, Field(ge=0, le=32)] = 1
    """Leading components of each path to drop."""
    subdirectory: RelativePath | None = None
    """The only directory to keep, after dropping; its content is the tree."""
    patches: list[RelativePath] = []
    """Patch files of the project (unified diffs, ``-p1``), applied in order; locked by their digests."""

    def files(self) -> tuple[str, ...]:
        """The patches."""
        return tuple(self.patches)

    @field_validator("sha256", mode="after")
    @classmethod
    def _bound(cls, value: str | None, info: ValidationInfo) -> str | None:
        trusted = info.data.get("trust") is not None
        if value is None and "trust" in info.data and not trusted:
            raise ValueError('is required; where nobody publishes it, write trust = "first-use"')
        if value is not None and trusted:
            raise ValueError('says what must come, so trust = "first-use" has no place beside it')
        return value


class ArchiveTool(Tool, ArchiveRequest):
    """A tool from an archive."""


class PathRequest(Request):
    """``from = "path"``: a directory of the project, locked by its tree digest."""

    from_: Literal["path"]
    """A directory of the project."""
    path: RelativePath
    """The directory, relative to the project; git's ignore rules apply."""
