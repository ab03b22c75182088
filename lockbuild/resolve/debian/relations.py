"""Relationship fields: ``Depends``, ``Provides``, ``Conflicts`` … (Debian Policy 7.1, deb-control(5)).

``libc6 (>= 2.38), awk | mawk, python3:any`` is a conjunction of *clauses*, each one or more
alternative *relations*. Architecture lists and build profiles belong to source packages only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lockbuild.resolve.debian.version import satisfies, version_key

_RELATION = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9+.-]*)(?::(?P<qualifier>[a-z0-9-]+))?"
    r"(?:\s*\(\s*(?P<operator><<|<=|=|>=|>>|<|>)\s*(?P<version>[^\s()]+)\s*\))?"
)
_OBSOLETE = {"<": "<=", ">": ">="}


@dataclass(frozen=True, slots=True)
class Relation:
    """One package name, perhaps with an architecture qualifier and a bound on its version."""

    name: str
    qualifier: str | None = None
    operator: str | None = None
    version: str | None = None

    def __str__(self) -> str:
        name = f"{self.name}:{self.qualifier}" if self.qualifier else self.name
        return f"{name} ({self.operator} {self.version})" if self.operator else name

    def admits(self, version: str | None) -> bool:
        """Whether ``version`` is within the bound. None (an unversioned Provides) only where there is none."""
        if self.operator is None or self.version is None:
            return True
        return version is not None and satisfies(version, self.operator, self.version)


Clause = tuple[Relation, ...]


def describe(clause: Clause) -> str:
    """The clause as a control file writes it."""
    return " | ".join(map(str, clause))


@lru_cache(maxsize=16384)
def parse_relation(text: str) -> Relation:
    """Read one relation; ValueError where it is none."""
    match = _RELATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()[:80]!r} is not a relation to a package")
    operator = match["operator"]
    if operator is not None:
        version_key(match["version"])
        operator = _OBSOLETE.get(operator, operator)
    return Relation(match["name"], match["qualifier"], operator, match["version"])


def parse_clauses(field: str | None) -> tuple[Clause, ...]:
    """Read a whole field; () for an absent one. ValueError where it is not one."""
    if not field:
        return ()
    return tuple(
        tuple(map(parse_relation, clause.split("|"))) for clause in field.split(",") if clause.strip()
    )


def parse_relations(field: str | None) -> tuple[Relation, ...]:
    """Read a field that has no alternatives (``Provides``, ``Conflicts``, ``Breaks``)."""
    if not field:
        return ()
    return tuple(parse_relation(item) for item in field.split(",") if item.strip())
