"""Filling values into strings as Python does, for the few forms that files which are read as data use.

Nothing here looks at attributes of values or takes widths of more than two digits, so that a hostile template can
neither reach anything nor fill the memory. Whatever is not known is a ValueError that says so.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

Value = str | int | bool | None | tuple["Value", ...] | dict[str, "Value"]
"""What a constant can be."""

_FORMAT = re.compile(r"(0?\d{1,2})?[ds]?")
_PERCENT = re.compile(r"%(%|(?:\((\w+)\))?(0?\d{0,2})([sd]))")


def formatted(value: Value, form: str) -> str:
    """``format(value, form)`` where ``form`` is at most a width of two digits with ``d`` or ``s``."""
    if not _FORMAT.fullmatch(form):
        raise ValueError(f"the format {form!r} is not known")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a string or a number is needed")
    try:
        return format(str(value) if form.endswith("s") else value, form)
    except ValueError:
        raise ValueError(f"the format {form!r} does not fit") from None


def percent(template: str, values: Value) -> str:
    """``template % values``."""
    given = list(values) if isinstance(values, tuple) else [values]

    def piece(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        if found[2] is not None:
            if not isinstance(values, dict) or found[2] not in values:
                raise ValueError(f"there is no value for {found[0]}")
            return formatted(values[found[2]], found[3] + found[4])
        if isinstance(values, dict) or not given:
            raise ValueError(f"there is no value for {found[0]}")
        return formatted(given.pop(0), found[3] + found[4])

    if "%" in _PERCENT.sub("", template):
        raise ValueError("its format is not known")
    result = _PERCENT.sub(piece, template)
    if given and not isinstance(values, dict):
        raise ValueError("it has more values than places for them")
    return result


def braces(template: str, given: Sequence[Value], named: Mapping[str, Value]) -> str:
    """``template.format(*given, **named)``."""
    result, turn = "", 0
    for text, field, form, conversion in string.Formatter().parse(template):
        result += text
        if field is None:
            continue
        if conversion:
            raise ValueError("its conversion is not known")
        index = turn if not field else int(field) if field.isdecimal() and len(field) < 4 else None
        turn += not field
        if index is not None and index < len(given):
            result += formatted(given[index], form or "")
        elif field in named:
            result += formatted(named[field], form or "")
        else:
            raise ValueError(f"there is no value for {{{field}}}")
    return result
