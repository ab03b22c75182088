"""Numbers in the headers of an answer: RFC 9110, sections 8.6 and 14.4.

A server may write any number of digits; what no file could have is no number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockbuild.transport.failures import MalformedError

_LENGTH = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")


def content_length(headers: Mapping[str, str]) -> int | None:
    """Bytes that follow; None where the server does not say. MalformedError for what no length could be."""
    said = headers.get("Content-Length")
    # Whoever sends pieces may say anything else beside: RFC 9112, section 6.3.
    if said is None or "Transfer-Encoding" in headers:
        return None
    lengths = {whole_number(part.strip()) for part in said.split(",")}
    length = lengths.pop()
    if lengths or length is None:
        raise MalformedError("the server says a length (Content-Length) that nothing has")
    return length


def whole_number(text: str) -> int | None:
    """The number that ``text`` is; None where it is none."""
    return int(text) if _LENGTH.fullmatch(text) else None


def content_range(headers: Mapping[str, str]) -> tuple[int, int, int | None] | None:
    """First and last byte of a part, and the size of the whole where that is known; None where it is not said, or
    nothing that could be."""
    place = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if place is None:
        return None
    first, last, total = int(place[1]), int(place[2]), None if place[3] == "*" else int(place[3])
    return (first, last, total) if first <= last and (total is None or last < total) else None
