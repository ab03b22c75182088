"""Requests for trees of git repositories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

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
    of: Name = "emdawnwebgpu"
    """The tool whose version names the tag."""

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The port."""
        return (f"tools.{self.of}",)


class GitTool(Tool, GitRequest):
    """A tool from a git repository."""


class DawnTool(Tool, DawnRequest):
    """Dawn's source as a tool."""
