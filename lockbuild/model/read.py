"""TOML text to a value, with every problem of the file said at once.

pydantic finds the problems; this module says them in the file's own words: its kebab-case keys,
the nearest known key for an unknown one, no library jargon.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lockbuild.errors import InvalidFileError, Problem, UsageError
from lockbuild.model.fields import keys_at, tags_at

M = TypeVar("M", bound=BaseModel)

_DEEPEST = 32
"""Tables and lists inside one another that a file may have. No format of ours has a quarter of that."""
_CONFLICT_MARKERS = ("<<<<<<< ", ">>>>>>> ")


def has_conflict(text: str) -> bool:
    """Whether a version control system left its conflict markers in it."""
    return any(line.startswith(_CONFLICT_MARKERS) for line in text.splitlines())


def parse_toml(text: str, file: str, *, conflict: str = "resolve it, then try again") -> dict[str, Any]:
    """The tables of a TOML file; InvalidFileError with line and column where it is not TOML, or holds what nobody can
    use: more levels than there are keys for, strings with a NUL character.

    ``conflict`` is the hint where there are conflict markers in it.
    """
    if has_conflict(text):
        raise UsageError("there is an unresolved merge conflict in it", on=file, hint=conflict)
    try:
        # Editors on Windows begin a file with a byte order mark, which no version of TOML has a use for.
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(file, [Problem("", f"not TOML: {error}")]) from None
    except ValueError:  # Python reads no number of thousands of digits
        raise InvalidFileError(file, [Problem("", "a number in it has too many digits")]) from None
    except RecursionError:
        raise InvalidFileError(file, [Problem("", f"it has more than {_DEEPEST} levels")]) from None
    if problems := list(_useless(tables)):
        raise InvalidFileError(file, problems)
    return tables


def _useless(tables: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with values that are TOML, whatever they are for. A NUL character ends strings in systems."""
    waiting: list[tuple[list[str | int], Any]] = [([], tables)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > _DEEPEST:
            yield Problem(_dotted(path[:3]), f"has more than {_DEEPEST} levels")
            return
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            if isinstance(item, dict | list):
                waiting.append(([*path, key], item))
            elif isinstance(item, str) and "\0" in item:
                yield Problem(_dotted([*path, key]), "must not have a NUL character")
            if isinstance(key, str) and "\0" in key:
                yield Problem(_dotted([*path, key]), "the key must not have a NUL character")


def validate(model: type[M], data: dict[str, Any], file: str, *, hint: str | None = None) -> M:
    """``data`` as a ``model``; InvalidFileError naming every problem by its dotted key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [
            problem
            for item in error.errors(include_url=False)
            for problem in _problems(model, data, dict(item))
        ]
        raise InvalidFileError(file, problems, hint=hint) from None


def _problems(model: type[BaseModel], data: dict[str, Any], item: dict[str, Any]) -> list[Problem]:
    """One problem, or one a line where a check across keys found several (each begins with its key)."""
    if item["type"] == "value_error" and not item["loc"]:
        lines = str(item["ctx"]["error"]).splitlines()
        return [Problem(*line.split(": ", 1)) if ": " in line else Problem("", line) for line in lines]
    return [_problem(model, data, item)]


def _problem(model: type[BaseModel], data: dict[str, Any], item: dict[str, Any]) -> Problem:
    location: Sequence[str | int] = item["loc"]
    kind: str = item["type"]
    present = _present(data, location)
    # A discriminated union puts its tag (the value of `from`) into the location; the file has no such key.
    key = _dotted(present)
    if kind == "extra_forbidden":
        known = keys_at(model, present[:-1], data)
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        expected = (
            f"; did you mean {close[0]!r}?"
            if close
            else f" (known: {', '.join(sorted(known))})"
            if known
            else ""
        )
        return Problem(key, f"unknown key{expected}")
    if kind == "missing":
        return Problem(key, "is required")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        context = item.get("ctx", {})
        tags = str(context.get("expected_tags", "")).replace("'", '"')
        if not tags:
            tags = ", ".join(f'"{tag}"' for tag in tags_at(model, present, data))
        found = f", not {context['tag']!r}" if "tag" in context else ""
        return Problem(f"{key}.from", f"must be one of {tags}{found}")
    message = str(item["msg"])
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    return Problem(key, _plain(kind, message, item))


def _plain(kind: str, message: str, item: dict[str, Any]) -> str:
    words = {
        "string_type": "must be a string",
        "int_type": "must be a whole number",
        "bool_type": "must be true or false",
        "list_type": "must be a list",
        "dict_type": "must be a table",
        "model_type": "must be a table",
        "model_attributes_type": "must be a table",
    }
    if kind in words:
        return f"{words[kind]}, not {_described(item.get('input'))}"
    if kind == "too_short":
        return "must not be empty"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "literal_error":
        return f"must be {item['ctx']['expected']}, not {item.get('input')!r}".replace("'", '"')
    return message[:1].lower() + message[1:] if message[:2].istitle() else message


def _described(value: object) -> str:
    names = {
        str: "a string",
        bool: "a boolean",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return names.get(type(value), type(value).__name__)


def _present(data: Any, location: Sequence[str | int]) -> list[str | int]:
    """The location without the parts that pydantic adds (union tags), as far as the file has them."""
    path: list[str | int] = []
    here: Any = data
    for index, part in enumerate(location):
        if isinstance(here, dict):
            if part in here:
                here = here[part]
            elif index != len(location) - 1 or part == "[key]":
                continue
            else:
                here = None
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif index != len(location) - 1 or not isinstance(part, int):
            continue
        path.append(part)
    return path


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = str(part) if str(part).isprintable() else json.dumps(part)
            text += f".{name}" if text else name
    return text
