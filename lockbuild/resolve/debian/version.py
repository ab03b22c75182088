"""Debian's version order: deb-version(7), Debian Policy 5.6.12.

A version is ``[epoch:]upstream[-revision]``. The parts are compared as alternating runs of
non-digits and digits; in a run of non-digits ``~`` sorts before the end of the part, letters before
everything else; runs of digits are numbers of any length, and an absent one is zero.
"""

from __future__ import annotations

import re
from functools import lru_cache

# A colon in a revision is against the policy, but dpkg only warns of it, and compares.
_VERSION = re.compile(
    r"(?:(?P<epoch>\d{1,9}):)?(?P<upstream>[A-Za-z0-9.+~:-]*?)(?:-(?P<revision>[A-Za-z0-9.+~:]*))?"
)
_RUNS = re.compile(r"([^0-9]*)([0-9]*)")
_LONGEST = 512
"""Far above any real version; keeps a hostile index from making keys of megabytes."""

_Number = tuple[int, str]
_Part = tuple[tuple[tuple[int, ...], _Number], ...]
VersionKey = tuple[int, _Part, _Part]
"""Compares as the versions do; equal for versions that dpkg holds equal (``1.0`` and ``1.00-0``)."""


def _weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _part(text: str) -> _Part:
    # Numbers are compared as (length, digits): int() of a hostile run of digits is slow and limited.
    # The end of a run of non-digits weighs 0: above "~", below everything else.
    runs = []
    for other, digits in _RUNS.findall(text or "0"):
        significant = digits.lstrip("0")
        runs.append(((*map(_weight, other), 0), (len(significant), significant)))
    return tuple(runs)


@lru_cache(maxsize=65536)
def version_key(version: str) -> VersionKey:
    """The sort key of ``version``; ValueError where it is not a Debian version."""
    match = _VERSION.fullmatch(version) if len(version) <= _LONGEST else None
    if match is None or not match["upstream"]:
        raise ValueError(f"{version[:80]!r} is not a Debian version")
    return int(match["epoch"] or 0), _part(match["upstream"]), _part(match["revision"] or "")


def satisfies(version: str, operator: str, wanted: str) -> bool:
    """Whether ``version`` stands in the relation ``operator`` (``<<  <=  =  >=  >>``) to ``wanted``."""
    left, right = version_key(version), version_key(wanted)
    match operator:
        case "<<":
            return left < right
        case "<=":
            return left <= right
        case "=":
            return left == right
        case ">=":
            return left >= right
        case ">>":
            return left > right
    raise ValueError(f"{operator!r} is not a relation between versions")
