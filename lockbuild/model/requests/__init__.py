"""What a manifest can ask for: one class for each value of ``from``.

A request says *what is wanted*. `lockbuild.resolve` has, for each class here, one module that turns it into locked
sources.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lockbuild.model.requests.archive import ArchiveRequest, ArchiveTool, PathRequest
from lockbuild.model.requests.debian import DebianBase, DebianSourceRequest
from lockbuild.model.requests.fields import Environment, MountPath, Name, RelativePath
from lockbuild.model.requests.pypi import PypiRequest, PypiTool

ToolRequest = Annotated[PypiTool | ArchiveTool, Field(discriminator="from_")]
SourceRequest = Annotated[ArchiveRequest | DebianSourceRequest | PathRequest, Field(discriminator="from_")]
Request = DebianBase | PypiTool | ArchiveTool | ArchiveRequest | DebianSourceRequest | PathRequest

__all__ = [
    "ArchiveRequest",
    "ArchiveTool",
    "DebianBase",
    "DebianSourceRequest",
    "Environment",
    "MountPath",
    "Name",
    "PathRequest",
    "PypiRequest",
    "PypiTool",
    "RelativePath",
    "Request",
    "SourceRequest",
    "ToolRequest",
]
