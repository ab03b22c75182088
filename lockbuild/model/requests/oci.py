"""Requests for images of registries."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from lockbuild.model.base import FileModel
from lockbuild.model.reference import Reference
from lockbuild.model.requests.debian import DebianBase
from lockbuild.model.requests.request import Request

_PYTHON = r"[0-9]+\.[0-9]+(?:\.[0-9]+)?"
_GLIBC = r"[0-9]+\.[0-9]+"


def _reference(value: str) -> str:
    Reference.parse(value)
    return value


class BaseImage(FileModel):
    """``[base.image]``: an image of a registry, as the root file system."""

    reference: Annotated[str, AfterValidator(_reference), Field(json_schema_extra=Reference.text_schema())]
    """Where it is: ``registry/repository`` with ``:tag``, ``@sha256:…`` or both; then the digest counts."""
    python: Annotated[str, Field(pattern=f"^{_PYTHON}$")] | None = None
    """The CPython in it that wheels are chosen for, where its Debian packages do not say so: ``3.12`` or ``3.12.4``."""
    glibc: Annotated[str, Field(pattern=f"^{_GLIBC}$")] | None = None
    """The C library in it that wheels are chosen for, where its Debian packages do not say so: ``2.36``."""


class ImageRoot(Request):
    """The whole ``[base]`` where it is an image: that, and the Debian packages to have on top of it."""

    image: BaseImage
    """The image."""
    debian: DebianBase | None = None
    """Packages to add to those that the image has."""
