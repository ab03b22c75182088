"""Requests for what ONNX Runtime's build downloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lockbuild.model.requests.fields import Name, RelativePath
from lockbuild.model.requests.request import Request


class OnnxruntimeDepsRequest(Request):
    """``from = "onnxruntime-deps"``: the archives that ONNX Runtime's deps.txt names, as its ``mirror`` directory."""

    from_: Literal["onnxruntime-deps"]
    """The lines ``name;url;SHA-1`` of a deps.txt."""
    of: Name | None = None
    """The source with ``from = "git"`` that is the checkout; by default the file is the project's."""
    file: RelativePath = "cmake/deps.txt"
    """The file, relative to the checkout or the project."""

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The checkout, where it is not the project."""
        return () if self.of is None else (f"sources.{self.of}",)

    def files(self) -> tuple[str, ...]:
        """The file, where it is the project's."""
        return () if self.of is not None else (self.file,)
