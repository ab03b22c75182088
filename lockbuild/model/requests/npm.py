"""Requests for packages of the npm registry."""

from __future__ import annotations

from typing import Literal

from lockbuild.model.requests.fields import RelativePath
from lockbuild.model.requests.tool import Tool


class NpmTool(Tool):
    """``from = "npm"``: every package that a package-lock.json names, as a cache for ``npm ci --offline``."""

    from_: Literal["npm"]
    """The npm registry."""
    lockfile: RelativePath
    """The package-lock.json (version 2 or 3), relative to the project."""

    def files(self) -> tuple[str, ...]:
        """The lock file."""
        return (self.lockfile,)
