"""Requests for Emscripten: its SDK releases and its ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lockbuild.model.requests.fields import Name
from lockbuild.model.requests.request import Request
from lockbuild.model.requests.tool import Tool

PORTS_DIR = "/opt/emscripten-ports"
"""Where Emscripten finds ports (``EM_PORTS``)."""
BINDINGS = "emdawnwebgpu"
"""The port with the bindings to WebGPU, whose releases are made from commits of Dawn."""


class EmsdkTool(Tool):
    """``from = "emsdk"``: a release of the Emscripten SDK, as emsdk would install it."""

    chosen_for_base: ClassVar[bool] = True

    from_: Literal["emsdk"]
    """The emsdk repository and the archives of its releases."""
    version: Annotated[str, Field(min_length=1)]
    """``X.Y.Z``, ``X.Y.Z-asserts``, an alias (``latest``), or a range as ``>=4.0.10,<5``: its newest."""
    node: bool = True
    """Have the Node.js that the release is paired with, too."""

    def place(self, name: str) -> str:
        """By default /opt/emsdk, whatever its name: emsdk's configuration and scripts hold the path."""
        return self.mount or "/opt/emsdk"


class PortTool(Tool):
    """``from = "port"``: an Emscripten port, as the environment's Emscripten pins it, planted for use offline."""

    from_: Literal["port"]
    """The port files of the Emscripten repository."""
    port: Name | None = None
    """Name of the port; by default the tool's own name."""
    version: Annotated[str, Field(min_length=1)] | None = None
    """Another version than the one that Emscripten pins, with its ``sha512``."""
    sha512: Annotated[str, Field(pattern="^[0-9a-f]{128}$")] | None = None
    """SHA-512 of that version's archive; without it the archive is trusted on first use."""
    of: Name | None = None
    """The tool that is the Emscripten whose pin counts; by default the only one there is, else that of the base."""

    def place(self, name: str) -> str:
        """By default in /opt/emscripten-ports, under the name of the port: Emscripten looks for it so."""
        return self.mount or f"{PORTS_DIR}/{self.port or name}"

    def followed(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The tools that may be the Emscripten whose pin counts. Empty where only the base is left."""
        if self.of is not None:
            return (self.of,)
        return tuple(name for name, tool in tools.items() if isinstance(tool, EmsdkTool))

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The Emscripten whose pin counts; where the toolchain has no SDK, the base that has it."""
        return tuple(f"tools.{name}" for name in self.followed(tools)) or ("base",)
