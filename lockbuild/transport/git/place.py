"""What git is told of one place, and what it means when git fails there.

A place is a canonical URL or what a mirror puts there. Settings: git-config(1).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, storage_error
from lockbuild.transport.failures import (
    NotFoundError,
    RefusedError,
    TransferError,
    UnavailableError,
    UnreachableError,
)
from lockbuild.transport.git.access import GitAccess
from lockbuild.transport.git.process import GitFailedError, GitSilentError, Settings

REMOTE = "origin"
"""The name under which settings give git the place."""
SCHEMES = ("https", "http", "ssh", "file")
_HOST = re.compile(r"(?!-)[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")


def fault_of(url: str) -> str | None:
    """Why git must not be given ``url``; None where it may. No shell, no option, no helper hides in what passes."""
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        return "it has a blank or a control character"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "it is malformed"
    if "://" not in url or parts.scheme not in SCHEMES:
        return f"it is none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            return "it names no local path"
        return None
    if not _HOST.fullmatch(parts.hostname or ""):
        return "its host is not a host's name"
    if (parts.username or "").startswith("-"):
        return "it hides an option"
    if not parts.path.strip("/"):
        return "it names no repository"
    return None


class Surroundings:
    """What git is told besides what it shall do; ``home`` is a directory for files that it is given."""

    def __init__(self, config: Config, home: Path) -> None:
        self._timeout = config.network.timeout
        self._access = GitAccess(config, os.environ, home)

    def settings(self, place: str) -> Settings:
        """What git is told for ``place``."""
        scheme = urlsplit(place).scheme
        allowed = ("http", "https") if scheme == "http" else (scheme,)
        return {
            "protocol.allow": "never",
            **{f"protocol.{name}.allow": "always" for name in allowed},
            "http.lowSpeedLimit": "1",
            "http.lowSpeedTime": str(max(1, round(self._timeout))),
            "http.followRedirects": "initial",
            "http.userAgent": "git/lockbuild",
            f"remote.{REMOTE}.url": self._access.plain(place),
            f"remote.{REMOTE}.promisor": "true",
            f"remote.{REMOTE}.partialclonefilter": "blob:none",
            **self._access.settings(place),
        }

    def failure(self, place: str, failure: GitFailedError) -> TransferError:
        """What git said, as one of the ways in which a transfer fails."""
        kind, what, hint = _explained(failure)
        if kind is RefusedError and hint is None:
            hint = self._access.hint(place)
        return kind(what, on=redact(place), hint=hint)


def local_path(place: str) -> Path | None:
    """The directory that a file:// place is."""
    parts = urlsplit(place)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


class LimitedError(TransferError):
    """The server can do less than was asked of it."""


_EXPLANATIONS: tuple[tuple[str, type[TransferError], str, str | None], ...] = (
    (
        r"upload-pack: not our ref|couldn't find remote ref|did not receive expected object|"
        r"did not send all necessary objects|bad object|not allow request for unadvertised object",
        NotFoundError,
        "it does not have what was asked for",
        None,
    ),
    (
        r"dumb http transport does not support|does not support (?:--shallow|shallow)|not support .*depth",
        LimitedError,
        "the server is an old or a simple one",
        None,
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|returned error: 40[13]|HTTP 40[13]|"
        r"Permission denied|terminal prompts disabled",
        RefusedError,
        "the server wants to know who asks, or refuses",
        None,
    ),
    (
        r"Host key verification failed",
        RefusedError,
        "ssh does not know the server's key",
        "connect to it with ssh once, or put its key into known_hosts: nobody is asked here",
    ),
    (
        r"returned error: 30\d|unable to update url base from redirection",
        RefusedError,
        "the server redirects to another place, which is not followed with credentials",
        "name the new place in the manifest, or as a mirror",
    ),
    (
        r"protocol '\w+' is not (?:allowed|supported)|transport '\w+' not allowed|"
        r"Protocol .* (?:not supported|disabled)",
        RefusedError,
        "the server leads to a protocol that is not allowed",
        "name the new place in the manifest, or as a mirror",
    ),
    (
        r"repository '.*' not found|does not appear to be a git repository|not a git repository|"
        r"returned error: 4(?:04|10)|[Rr]epository not found|does not exist",
        NotFoundError,
        "there is no such repository",
        None,
    ),
    (
        r"server certificate verification failed|SSL certificate problem|SSL: no alternative certificate|"
        r"certificate subject name|problem with the (?:local )?SSL",
        UnreachableError,
        "its certificate is not trusted",
        "let REQUESTS_CA_BUNDLE or SSL_CERT_FILE name the bundle that has your organisation's CA, or network.ca",
    ),
    (
        r"returned error: (?:5\d\d|429)|HTTP (?:5\d\d|429)",
        UnavailableError,
        "the server cannot answer for now",
        None,
    ),
    (r"Could not resolve", UnreachableError, "its host is not known here", None),
    (
        r"Connection refused|Failed to connect|[Tt]imed out|timeout|too slow|Connection reset|unexpected disconnect|"
        r"early EOF|hung up|Empty reply|transfer closed|RPC failed|Network is unreachable|No route to host",
        UnreachableError,
        "the connection could not be made, or broke",
        None,
    ),
)


def _explained(failure: GitFailedError) -> tuple[type[TransferError], str, str | None]:
    from lockbuild.config.urls import redact_text

    lines = [line.strip() for line in failure.text.replace("\r", "\n").split("\n")]
    if isinstance(failure, GitSilentError):
        return UnreachableError, failure.text, None
    pattern, kind, what, hint = next(
        (each for each in _EXPLANATIONS if re.search(each[0], failure.text)),
        (None, TransferError, "git failed", None),
    )
    telling = [
        line
        for line in lines  # those of ssh have no prefix
        if line.startswith(("fatal:", "error:", "ERROR:", "ssh:", "remote:"))
        or (pattern is not None and re.search(pattern, line))
    ]
    shown = redact_text("; ".join(dict.fromkeys(telling or lines[-3:])))[:500].strip("; ")
    return kind, f"{what} ({shown})", hint


def full_disk(failure: GitFailedError, on: Path) -> FetchError | None:
    """The error for a disk that is full; None where it was something else."""
    import errno

    if "No space left on device" in failure.text or "Disk quota exceeded" in failure.text:
        return storage_error(
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "cannot keep git objects", on=str(on)
        )
    return None
