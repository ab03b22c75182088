"""Which parts of a URL are secret, so that none is shown, locked or logged.

RFC 3986, section 3.2.1: userinfo never belongs into anything that a person reads.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

_SECRET_KEY = re.compile(r"token|key|sig|pass|pwd|secret|auth|cred|session|x-amz|x-goog", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_PARAMETER = re.compile(r"([^&;=]+)=([^&;]*)")
_PORTS = {"http": 80, "https": 443, "ssh": 22}

Origin = tuple[str, str | None, int | None]
"""Scheme, host and port (RFC 6454): what is meant for one origin goes to no other."""


def redact(url: str) -> str:
    """``url`` without user name, password, and the values of query parameters that look like secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "<malformed URL>"
    netloc = parts.netloc.rpartition("@")[2]
    query = _PARAMETER.sub(
        lambda pair: f"{pair[1]}=***" if _SECRET_KEY.search(pair[1]) else pair[0], parts.query
    )
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))


def redact_text(text: str) -> str:
    """``text`` with every URL in it redacted."""
    return _URL.sub(lambda match: redact(match[0]), text)


def carries_secret(url: str) -> bool:
    """Whether redacting changes ``url``."""
    return redact(url) != url


def origin(parts: SplitResult) -> Origin:
    """The origin of a URL. ValueError for a bad port."""
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def without_secret_parameters(query: str) -> str:
    """A URL's ``query`` without the parameters that look like secrets."""
    kept = [part for part in query.split("&") if not _SECRET_KEY.search(part.partition("=")[0])]
    return "&".join(kept)


def with_credentials_of(url: str, page: str) -> str:
    """``url`` with the user name and password of ``page`` where both are of one origin."""
    own, other = urlsplit(url), urlsplit(page)
    if "@" in other.netloc and "@" not in own.netloc and origin(own) == origin(other):
        return urlunsplit(own._replace(netloc=other.netloc))
    return url
