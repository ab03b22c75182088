"""Which keys a table of a file may have, read from the model itself (for "did you mean")."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel


def keys_at(model: type[BaseModel], path: Sequence[str | int], data: Any) -> list[str]:
    """The keys of the table at ``path`` of a file that is a ``model``; [] where any key may stand."""
    annotations, here = _descend(model, path, data)
    tag = here.get("from") if isinstance(here, dict) else None
    keys: set[str] = set()
    for choice in annotations:
        tags = _tags(choice)
        if tag is None or not tags or tag in tags:
            keys.update(field.alias or name for name, field in choice.model_fields.items())
    return sorted(keys)


def tags_at(model: type[BaseModel], path: Sequence[str | int], data: Any) -> list[str]:
    """The values that ``from`` may have in the table at ``path``."""
    return sorted({tag for choice in _descend(model, path, data)[0] for tag in _tags(choice)})


def _descend(
    model: type[BaseModel], path: Sequence[str | int], data: Any
) -> tuple[list[type[BaseModel]], Any]:
    """The models that the table at ``path`` may be, and its content."""
    candidates: list[Any] = [model]
    here = data
    for part in path:
        if isinstance(here, dict):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int):
            here = here[part]
        candidates = [inner for candidate in candidates for inner in _inner(candidate, part)]
    return [choice for candidate in candidates for choice in _models(candidate)], here


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    field = model.model_fields.get("from_")
    return typing.get_args(field.annotation) if field is not None else ()


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
