"""What a signed ``Release`` file says of a suite, and whether to believe it now.

Format: Debian's repository format, "Release files". ``Valid-Until`` bounds how long an old index can
be replayed; a frozen mirror or a snapshot is past it, which has to be somebody's recorded choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.resolve.debian.deb822 import parse_stanza
from lockbuild.resolve.debian.index import checked_digest, checked_size

_CLOCK_SKEW = timedelta(hours=1)
"""How far a clock may be behind the archive's."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index as the Release lists it: digest and size in bytes."""

    sha256: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Release:
    """A suite. ``files`` maps paths below ``dists/<suite>/`` to what they must be; times are aware."""

    suite: str
    codename: str
    date: datetime
    valid_until: datetime | None
    architectures: frozenset[str]
    components: tuple[str, ...]
    by_hash: bool
    all_apart: bool
    files: Mapping[str, IndexFile]


def parse_release(text: bytes, *, on: str) -> Release:
    """Read a Release file; ``text`` is what was signed. IntegrityError where it is not one."""
    stanza = parse_stanza(text.strip(b"\n"), on=on)
    files = {}
    for line in stanza.lines("SHA256"):
        words = line.split()
        if len(words) != 3:
            raise IntegrityError(f"{line[:80]!r} is not a digest, a size and a path", on=on)
        files[words[2]] = IndexFile(checked_digest(words[0], on=on), checked_size(words[1], on=on))
    if not files:
        raise IntegrityError("it lists no SHA256 of any index", on=on)
    date = _time(stanza.get("Date"), "Date", on)
    if date is None:
        raise IntegrityError("it has no Date", on=on)
    suite, codename = stanza.get("Suite") or "", stanza.get("Codename") or ""
    architectures = frozenset(stanza.words("Architectures"))
    return Release(
        suite=suite or codename,
        codename=codename or suite,
        date=date,
        valid_until=_time(stanza.get("Valid-Until"), "Valid-Until", on),
        architectures=architectures,
        # Some archives write "updates/main"; the path in the index does not have the prefix.
        components=tuple(word.rpartition("/")[2] for word in stanza.words("Components")),
        by_hash=stanza.get("Acquire-By-Hash") == "yes",
        all_apart="all" in architectures
        and "Packages" not in stanza.words("No-Support-for-Architecture-all"),
        files=files,
    )


def check_release(release: Release, suite: str, *, at: datetime, allow_expired: bool, on: str) -> bool:
    """Whether ``release`` is past its Valid-Until at the moment ``at`` (and that is accepted).

    IntegrityError where it is another suite's; ResolveError where it is from the future, or expired without
    ``allow_expired``.
    """
    if suite not in (release.suite, release.codename):
        raise IntegrityError(
            f"it is the index of {release.suite} ({release.codename}), not of {suite}", on=on
        )
    if release.date > at + _CLOCK_SKEW:
        raise ResolveError(
            f"it is dated {timestamp(release.date)}, which is after {timestamp(at)}",
            on=on,
            hint="check this machine's clock (or the snapshot's time)",
        )
    if release.valid_until is None or at <= release.valid_until:
        return False
    if not allow_expired:
        raise ResolveError(
            f"it was valid until {timestamp(release.valid_until)} and is expired: "
            "the mirror is frozen, or someone replays an old state",
            on=on,
            hint="use an up-to-date mirror; or accept this state, which the lock records, with "
            "`lockbuild lock --allow-expired`, or with allow-expired = true in the request or under [debian] in "
            "lockbuild's config.toml",
        )
    return True


def timestamp(time: datetime) -> str:
    """The moment in RFC 3339, UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(value: str | None, field: str, on: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    if value is None:
        return None
    try:
        time = parsedate_to_datetime(value)
    except ValueError:
        raise IntegrityError(f"its {field} {value[:60]!r} is not a date", on=on) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
