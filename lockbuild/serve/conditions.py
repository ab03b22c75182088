"""Parts of an answer, and answers on conditions: RFC 9110, sections 13 and 14.

One range of bytes is served; several at once are answered with the whole, as the standard allows. ETags are strong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockbuild.serve.message import Answer

_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Delivery:
    """How an answer goes out: ``count`` bytes of its content (None: all, however many) from ``start`` on."""

    status: int
    headers: Mapping[str, str]
    start: int = 0
    count: int | None = 0


def deliver(answer: Answer, method: str, asked: Mapping[str, str]) -> Delivery:
    """What of ``answer`` to send to a client that ``asked`` so (headers by lower-case names)."""
    size = answer.content.size
    headers = {**answer.headers}
    if answer.status != 304:
        headers["Content-Type"] = answer.media_type
    if answer.etag is None or answer.status != 200 or method not in ("GET", "HEAD") or size is None:
        return Delivery(answer.status, _sized(headers, size), 0, size)
    headers |= {"ETag": f'"{answer.etag}"', "Accept-Ranges": "bytes"}
    matching = asked.get("if-match")
    if matching is not None and not _matches(matching, answer.etag, weakly=False):
        return Delivery(412, _sized(headers, 0))
    matching = asked.get("if-none-match")
    if matching is not None and _matches(matching, answer.etag, weakly=True):
        del headers["Content-Type"]
        return Delivery(304, headers)
    wanted = asked.get("range")
    condition = asked.get("if-range")
    if (
        wanted is None
        or method != "GET"
        or (condition is not None and condition.strip() != f'"{answer.etag}"')
    ):
        return Delivery(200, _sized(headers, size), 0, size)
    part = _part(wanted, size)
    if part is None:
        return Delivery(200, _sized(headers, size), 0, size)
    start, end = part
    if start >= end:
        return Delivery(416, _sized({**headers, "Content-Range": f"bytes */{size}"}, 0))
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Delivery(206, _sized(headers, end - start), start, end - start)


def _sized(headers: Mapping[str, str], size: int | None) -> dict[str, str]:
    return dict(headers) if size is None else {**headers, "Content-Length": str(size)}


def _matches(header: str, etag: str, *, weakly: bool) -> bool:
    if header.strip() == "*":
        return True
    return any(
        match[1] == etag and (weakly or not match[0].startswith("W/")) for match in _TAG.finditer(header)
    )


def _part(header: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last, the former not below the latter where there is no such part; None where
    the header is to be passed over."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    if match[2] and int(match[2]) < start:
        return None
    return start, min(int(match[2]) + 1, size) if match[2] else size
