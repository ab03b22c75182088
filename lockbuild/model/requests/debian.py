"""Requests for Debian packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lockbuild.model.requests.fields import DebianPackage, Name, SnapshotTime, WantedDebianPackage
from lockbuild.model.requests.request import Request
from lockbuild.model.requests.tool import Tool


class DebianBase(Request):
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


class DebianSourceRequest(Request):
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


class DebianTool(Tool, DebianBase):
    """``from = "debian"``: packages mounted apart from the base, with what they need and the base has not."""

    from_: Literal["debian"]
    """Packages of a Debian suite."""

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The base: what it has is left out."""
        return ("base",)
