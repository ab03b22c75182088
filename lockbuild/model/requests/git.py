"""Requests for trees of git repositories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationInfo, field_validator

from lockbuild.model.requests.emscripten import BINDINGS, EmsdkTool, PortTool
from lockbuild.model.requests.fields import GitUrl, Name, RelativePath, Revision
from lockbuild.model.requests.request import Request
from lockbuild.model.requests.tool import Tool


class GitContents(Request):
    """What of a commit is wanted."""

    submodules: bool | list[RelativePath] = False
    """Which submodules to have, recursively: all, none, or those at these paths and what is in them."""
    exclude: list[RelativePath] = []
    """Files and directories to leave out: what is not needed of a large repository, or cannot be had."""
    describe: bool = False
    """Leave a ``.git`` directory with which ``git describe`` and ``git rev-parse HEAD`` answer as in a clone."""
    lfs: Literal["refuse", "fetch"] = "refuse"
    """What to do about files that git LFS keeps elsewhere."""


class GitRequest(GitContents):
    """``from = "git"``: the tree of a commit."""

    from_: Literal["git"]
    """A git repository."""
    url: GitUrl
    """The repository, without credentials."""
    rev: Revision
    """A tag, a branch or a full commit id."""


class DawnRequest(GitContents):
    """``from = "dawn"``: the commit of Dawn that a release of emdawnwebgpu was made from."""

    from_: Literal["dawn"]
    """Dawn's repository, at the tag that is the version of emdawnwebgpu."""
    version: Revision | None = None
    """The release itself, as ``v20251002.162335``; then nothing is followed."""
    of: Name = BINDINGS
    """What to follow: the tool that is the port, or an Emscripten SDK for what it pins; by default the port
    emdawnwebgpu, and where no tool is that, the environment's Emscripten."""

    @field_validator("of", mode="after")
    @classmethod
    def _alone(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("version") is not None:
            raise ValueError("has no place beside version, which says which release it is")
        return value

    def followed(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The tools that may say which release it is. Empty where it says so itself, or only the base is left."""
        if self.version is not None:
            return ()
        if self.of in tools or self.of != BINDINGS:
            return (self.of,)
        ports = [name for name, tool in tools.items() if isinstance(tool, PortTool) and tool.port == BINDINGS]
        return tuple(ports or (name for name, tool in tools.items() if isinstance(tool, EmsdkTool)))

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The port; without it the SDK that pins it, or the base that has an Emscripten."""
        if self.version is not None:
            return ()
        return tuple(f"tools.{name}" for name in self.followed(tools)) or ("base",)


class GitTool(Tool, GitRequest):
    """A tool from a git repository."""


class DawnTool(Tool, DawnRequest):
    """Dawn's source as a tool."""
