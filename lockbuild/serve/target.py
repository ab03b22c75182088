"""What a request is for: the target's path and the host that it names, neither believed before it is looked at."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote_to_bytes

_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class BadTargetError(Exception):
    """The target is not one that this server can have; the text says why."""


def split(target: str) -> tuple[tuple[str, ...], str]:
    """The decoded segments of the path, and the query. BadTargetError where a segment could mean something else to a
    file system, or to another server on the way."""
    if match := _ABSOLUTE.match(target):
        target = target[match.end() :] or "/"
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise BadTargetError("the target is not a path")
    segments = tuple(_decoded(segment) for segment in path[1:].split("/"))
    if any(not segment for segment in segments[:-1]):
        raise BadTargetError("the path has an empty segment")
    return segments, query


def _decoded(segment: str) -> str:
    try:
        decoded = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise BadTargetError("the path is not UTF-8") from None
    if decoded in (".", ".."):
        raise BadTargetError("the path climbs")
    if any(character in "/\\" or ord(character) < 32 or ord(character) == 127 for character in decoded):
        raise BadTargetError("a segment of the path has a slash or a control character in it")
    return decoded


def is_local(host: str) -> bool:
    """Whether a Host header names this machine without asking any name server.

    A page on the web can make its own name lead to the loopback interface (DNS rebinding), and read with a browser's
    help what only this machine should. Its name gives it away.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def well_formed(host: str) -> bool:
    """Whether a Host header can be repeated in a document."""
    return _HOST.fullmatch(host) is not None
