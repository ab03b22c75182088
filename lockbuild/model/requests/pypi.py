"""Requests for wheels of the Python package index."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from lockbuild.model.requests.fields import requirement
from lockbuild.model.requests.request import Request
from lockbuild.model.requests.tool import Tool


class PypiRequest(Request):
    """``from = "pypi"``: wheels for a requirement and what it depends on."""

    from_: Literal["pypi"]
    """The Python package index."""
    requirement: Annotated[str, AfterValidator(requirement)]
    """A dependency specifier (PEP 508) without a URL, as ``cmake>=3.31,<3.32``."""


class PypiTool(Tool, PypiRequest):
    """A tool from the Python package index."""

    chosen_for_base: ClassVar[bool] = True
