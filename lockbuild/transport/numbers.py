"""Numbers in the headers of an answer: RFC 9110, sections 8.6 and 14.4.

A server may write any number of digits; what no file could have is no number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LENGTH = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")


def content_length(headers: Mapping[str, str]) -> int | None:
    """Bytes that follow; None where the server does not say, or nothing that could be."""
    return whole_number(headers.get("Content-Length", ""))


def whole_number(text: str) -> int | None:
    """The number that ``text`` is; None where it is none."""
    return int(text) if _LENGTH.fullmatch(text) else None


def content_range(headers: Mapping[str, str]) -> tuple[int, int, int | None] | None:
    """First and last byte of a part, and the size of the whole where that is known; None where it is not said."""
    place = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if place is None:
        return None
    return int(place[1]), int(place[2]), None if place[3] == "*" else int(place[3])
