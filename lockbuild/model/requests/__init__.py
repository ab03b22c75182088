"""What a manifest can ask for: one class for each value of ``from``.

A request says *what is wanted*. `lockbuild.resolve` has, for each class here, one module that turns it into locked
sources.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lockbuild.model.requests.archive import ArchiveRequest, ArchiveTool, PathRequest
from lockbuild.model.requests.debian import DebianBase, DebianSourceRequest, DebianTool
from lockbuild.model.requests.emscripten import BINDINGS, EmsdkTool, PortTool
from lockbuild.model.requests.fields import Environment, MountPath, Name, RelativePath, RelativePattern
from lockbuild.model.requests.git import DawnRequest, DawnTool, GitRequest, GitTool
from lockbuild.model.requests.npm import NpmTool
from lockbuild.model.requests.oci import BaseImage, ImageRoot
from lockbuild.model.requests.onnxruntime import OnnxruntimeDepsRequest
from lockbuild.model.requests.pypi import PypiRequest, PypiTool
from lockbuild.model.requests.request import Request

ToolRequest = Annotated[
    ArchiveTool | DawnTool | DebianTool | EmsdkTool | GitTool | NpmTool | PortTool | PypiTool,
    Field(discriminator="from_"),
]
SourceRequest = Annotated[
    ArchiveRequest | DawnRequest | DebianSourceRequest | GitRequest | OnnxruntimeDepsRequest | PathRequest,
    Field(discriminator="from_"),
]

__all__ = [
    "BINDINGS",
    "ArchiveRequest",
    "ArchiveTool",
    "BaseImage",
    "DawnRequest",
    "DawnTool",
    "DebianBase",
    "DebianSourceRequest",
    "DebianTool",
    "EmsdkTool",
    "Environment",
    "GitRequest",
    "GitTool",
    "ImageRoot",
    "MountPath",
    "Name",
    "NpmTool",
    "OnnxruntimeDepsRequest",
    "PathRequest",
    "PortTool",
    "PypiRequest",
    "PypiTool",
    "RelativePath",
    "RelativePattern",
    "Request",
    "SourceRequest",
    "ToolRequest",
]
