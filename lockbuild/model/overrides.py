"""``[overrides]`` of a project manifest: what of its toolchain the project has otherwise.

Only the shape is checked here. What the keys are and whether their values fit is a matter of the toolchain that they
are laid over.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from lockbuild.model.base import FileModel
from lockbuild.model.requests.fields import Name


def _change(value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return value
    raise ValueError(
        "must be a string, a whole number, true or false, a list of strings or a table of strings"
    )


_STRING = {"type": "string"}
Change = dict[
    str,
    Annotated[
        Any,
        AfterValidator(_change),
        WithJsonSchema(
            {
                "anyOf": [
                    _STRING,
                    {"type": "integer"},
                    {"type": "boolean"},
                    {"type": "array", "items": _STRING},
                    {"type": "object", "additionalProperties": _STRING},
                ]
            }
        ),
    ],
]


class BaseOverrides(FileModel):
    """``[overrides.base]``."""

    debian: Change = {}
    """Keys of ``[base.debian]`` to have other values."""
    image: Change = {}
    """Keys of ``[base.image]`` to have other values."""


class Overrides(FileModel):
    """``[overrides]``: tables merge with those of the toolchain, anything else is replaced."""

    base: BaseOverrides = BaseOverrides()
    """Of the root file system."""
    tools: dict[Name, Change] = {}
    """Keys of tools, by name; a table with ``from`` is a tool of its own."""
    derive: dict[Name, Change] = {}
    """Keys of derived tools, by name; a table with ``steps`` is one of its own."""
