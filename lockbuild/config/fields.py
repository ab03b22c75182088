"""Types of values in the configuration file, and tables that show no credential."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lockbuild.config.urls import redact
from lockbuild.model.base import FileModel


def _checked(value: str, schemes: tuple[str, ...], message: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        _ = parts.port
        valid = parts.scheme in schemes and bool(parts.hostname)
        valid = valid or (parts.scheme == "file" and parts.path.startswith("/"))
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(message)
    return value


def _url(value: str) -> str:
    return _checked(value, ("http", "https"), "is not an http://, https:// or file:// URL")


def _place(value: str) -> str:
    return _checked(value, ("http", "https", "ssh"), "is not an http://, https://, file:// or ssh:// URL")


def _registry(value: str) -> str:
    from lockbuild.model.reference import Reference

    try:
        Reference(value, "name")
    except ValueError:
        raise ValueError("is not a registry (host or host:port)") from None
    return value


def _repository(value: str) -> str:
    from lockbuild.model.reference import Reference

    reference = Reference.parse(value)
    if reference.name != value:
        raise ValueError("must name a repository (registry/repository), without a tag or digest")
    return value


Url = Annotated[str, AfterValidator(_url), Field(json_schema_extra={"pattern": "^(https?://[^/]|file:/)"})]
Urls = Annotated[list[Url], Field(min_length=1)]
Place = Annotated[
    str, AfterValidator(_place), Field(json_schema_extra={"pattern": "^((https?|ssh)://[^/]|file:/)"})
]
"""A URL that may also be a Git repository's."""

Registry = Annotated[str, AfterValidator(_registry), Field(json_schema_extra={"pattern": "^[^/@\\s]+$"})]
"""A registry of images: ``host`` or ``host:port``."""
Repository = Annotated[
    str, AfterValidator(_repository), Field(json_schema_extra={"pattern": "^[^/@\\s]+/[^@\\s:]+$"})
]
"""A repository of one: ``host/name`` or ``host:port/name``."""


class Section(FileModel):
    """A table of the file whose representation shows no credential."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if isinstance(value, list):
                yield name, [redact(item) if isinstance(item, str) else item for item in value]
            else:
                yield name, redact(value) if isinstance(value, str) else value
