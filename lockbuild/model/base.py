"""The base of everything read from a TOML file: frozen, no unknown keys, kebab-case in the file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def kebab(name: str) -> str:
    """``allow_expired`` in Python is ``allow-expired`` in a file; a trailing ``_`` avoids a keyword."""
    return name.rstrip("_").replace("_", "-")


class FileModel(BaseModel):
    """A value that stands in a manifest, lock or configuration file."""

    # Most models stand in a bigger one, which has all that is needed to read them: their own validators
    # would only make every command start later.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kebab,
        populate_by_name=True,
        strict=True,
        defer_build=True,
    )
