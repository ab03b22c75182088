"""``[claims.TARGET]`` of a manifest: what somebody else published of a target's outputs."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Claim, OutputFile
from lockbuild.model.requests.fields import RelativePath, Sha256


class ClaimedFile(FileModel):
    """One file that somebody published."""

    path: RelativePath
    """Path below the output directory."""
    size: Annotated[int, Field(ge=0)]
    """Bytes."""
    sha256: Sha256
    """SHA-256 of the file: 64 lower-case hex digits."""


def _once(files: list[ClaimedFile]) -> list[ClaimedFile]:
    paths = [file.path for file in files]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise ValueError(f"{twice[0]!r} is there twice")
    return files


class ClaimedOutputs(FileModel):
    """``[claims.TARGET]``: what somebody else published of a target's outputs."""

    by: Annotated[str, Field(min_length=1)]
    """Who says so, and where: a URL or a name with a version."""
    files: Annotated[list[ClaimedFile], Field(min_length=1), AfterValidator(_once)]
    """The files; other outputs of the target are not compared."""

    def claim(self) -> Claim:
        """As the lock has it."""
        files = [OutputFile(path=f.path, size=f.size, sha256=Digest(f.sha256)) for f in self.files]
        return Claim(by=self.by, files=sorted(files, key=lambda file: file.path))
