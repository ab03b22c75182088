"""Files that extend one another, as one: tables merge, anything else is replaced, the later file wins.

What comes of it is checked as one file would be. Each problem is then told of the file that has the key, so the
origin of every key is kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lockbuild.errors import InvalidFileError, Problem


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a key stands: in ``file``, below the table ``prefix`` (dotted; empty at the top)."""

    file: str
    prefix: str = ""

    def key(self, key: str) -> str:
        """The key as the file has it."""
        return f"{self.prefix}.{key}" if self.prefix and key else self.prefix or key


@dataclass(frozen=True, slots=True)
class Overlay:
    """The tables of some files, merged, and for every dotted key the file that had the last word on it."""

    data: dict[str, Any]
    origins: Mapping[str, Origin] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any], origin: Origin) -> Overlay:
        """One file by itself."""
        return cls({}, {"": origin}).extended(data, origin)

    def extended(self, over: Mapping[str, Any], origin: Origin) -> Overlay:
        """With ``over`` on top. A table that has another ``from`` than the one below replaces it whole."""
        origins = dict(self.origins)
        data = _merged(self.data, over, "", origin, origins)
        return Overlay(data, origins)

    def origin(self, key: str) -> Origin:
        """Whose a key is; of one that no file has, whose the table is in which it is missed."""
        while key not in self.origins:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.origins[key]

    def told(self, error: InvalidFileError) -> InvalidFileError:
        """The problems of the merged tables, each with its file where that is not the one that the error is on."""
        problems = sorted(
            ((self.origin(problem.key), problem) for problem in error.problems),
            key=lambda item: item[0].file != self.origins[""].file,
        )
        main = problems[0][0].file
        return InvalidFileError(
            main,
            [
                Problem(
                    origin.key(p.key), p.message if origin.file == main else f"{p.message} (in {origin.file})"
                )
                for origin, p in problems
            ],
            hint=error.hint,
        )


def _merged(
    under: Mapping[str, Any], over: Mapping[str, Any], path: str, origin: Origin, origins: dict[str, Origin]
) -> dict[str, Any]:
    result = dict(under)
    for key, value in over.items():
        inner = f"{path}.{key}" if path else key
        below = under.get(key)
        if not (isinstance(value, Mapping) and isinstance(below, Mapping)) or _other_kind(below, value):
            for known in [name for name in origins if name.startswith(f"{inner}.")]:
                del origins[known]
            below = {}
        origins[inner] = origin
        result[key] = _merged(below, value, inner, origin, origins) if isinstance(value, Mapping) else value
    return result


def _other_kind(under: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    return "from" in over and over["from"] != under.get("from")


def unfounded(
    under: Mapping[str, Any], over: Mapping[str, Any], required: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    """Tables of ``over`` that change something that is not there, and are not enough to be something new.

    ``required`` says for a group (``tools``) which keys make a whole table of it.
    """
    for group, keys in required.items():
        known = under.get(group, {})
        tables = over.get(group, {})
        if not isinstance(tables, Mapping) or not isinstance(known, Mapping):
            continue
        for name, table in tables.items():
            if name not in known and isinstance(table, Mapping) and not all(key in table for key in keys):
                close = difflib.get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]!r}?" if close else f"there is: {', '.join(known) or 'none'}"
                whole = " and ".join(f"`{key}`" for key in keys)
                yield Problem(
                    f"{group}.{name}",
                    f"there is no such table to change ({meant}), and a new one needs {whole}",
                )
