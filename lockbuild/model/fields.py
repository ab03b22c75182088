"""Which keys a table of a file may have, read from the model itself (for "did you mean")."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel


def keys_at(model: type[BaseModel], path: Sequence[str | int], data: Any) -> list[str]:
    """The keys of the table at ``path`` of a file that is a ``model``; [] where any key may stand."""
    candidates: list[Any] = [model]
    here = data
    for part in path:
        if isinstance(here, dict):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int):
            here = here[part]
        following: list[Any] = []
        for candidate in candidates:
            following.extend(_inner(candidate, part))
        candidates = following
    tag = here.get("from") if isinstance(here, dict) else None
    keys: list[str] = []
    for candidate in candidates:
        for choice in _models(candidate):
            tagged = choice.model_fields.get("from_")
            if tag is not None and tagged is not None and tag not in typing.get_args(tagged.annotation):
                continue
            keys.extend(field.alias or name for name, field in choice.model_fields.items())
    return sorted(set(keys))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return [found for inner in typing.get_args(annotation) for found in _models(inner)]
    return []


def _inner(annotation: Any, part: str | int) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin is dict:
        return [typing.get_args(annotation)[1]]
    if origin is list:
        return [typing.get_args(annotation)[0]]
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return [found for inner in typing.get_args(annotation) for found in _inner(inner, part)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [
            field.annotation
            for name, field in annotation.model_fields.items()
            if part in (name, field.alias) and field.annotation is not None
        ]
    return []
