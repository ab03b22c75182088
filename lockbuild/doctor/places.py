"""The places that bytes come from: whether each answers, how fast, and what its clock says."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import redact
from lockbuild.doctor.finding import Finding, ok, warning
from lockbuild.errors import LockbuildError
from lockbuild.transport.answers import refusal
from lockbuild.transport.client import Client

if TYPE_CHECKING:
    import requests

Kind = Literal["debian", "snapshot", "pypi", "npm", "mirror"]
KINDS: tuple[Kind, ...] = ("debian", "snapshot", "pypi", "npm", "mirror")
SECONDS = 5.0
"""How long a place may take to take a connection, and to answer."""
_SKEW = 120.0
"""Seconds that a clock may be off: servers' dates are rounded, and caches keep them for a while."""
_OK = (*range(200, 300), 403, 404, 410)
"""Statuses with which a server answers that shows no directories: it is there."""
_NO_HEAD = (405, 501)


@dataclass(frozen=True, slots=True)
class Place:
    """A configured place: ``url`` as it is, ``asked`` a small thing there to ask for."""

    kind: Kind
    url: str
    asked: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking. ``skew`` is how many seconds its clock is ahead of ours."""

    place: Place
    finding: Finding
    skew: float | None = None


def configured(config: Config, kind: Kind) -> list[Place]:
    """The places of one kind, in the order in which they are tried. Other programs may have to be asked for them.

    UsageError where their configuration cannot be used.
    """
    if kind == "debian":
        return [Place(kind, url, f"{url}/") for url in config.debian_mirrors()]
    if kind == "snapshot":
        service = config.snapshot_service()
        return [] if service is None else [Place(kind, service, f"{service.partition('@SNAPSHOTID@')[0]}/")]
    if kind == "pypi":
        # The page of a project that each index has: some make a list of all only when it is asked for.
        return [Place(kind, url, f"{url}/pip/") for url in config.pypi_indexes()]
    if kind == "npm":
        url = config.npm_registry("")
        return [Place(kind, url, f"{url}/")]
    found = [url for mirror in config.mirrors for url in mirror.to or ()]
    digests = [mirror.by_digest for mirror in config.mirrors if mirror.by_digest is not None]
    nothing = {"{sha256}": "0" * 64, "{sha512}": "0" * 128}
    places = [Place(kind, url, url) for url in dict.fromkeys(found) if not url.startswith("ssh:")]
    for template in digests:
        asked = template
        for word, value in nothing.items():
            asked = asked.replace(word, value)
        places.append(Place(kind, template, asked))
    return places


def patient(config: Config) -> Config:
    """``config`` with so much patience as a doctor has: one attempt, of a few seconds."""
    network = config.network.model_copy(
        update={"timeout": min(config.network.timeout, SECONDS), "retries": 0}
    )
    return config.model_copy(update={"network": network})


def ask(
    place: Place, client: Client, credentials: Credentials, clock: Callable[[], float] = time.time
) -> Answer:
    """Ask ``place`` for the head of something small. ``clock`` is the machine's, in seconds since the epoch."""
    subject = redact(place.url)
    parts = urlsplit(place.asked)
    if parts.scheme == "file":
        there = Path(unquote(parts.path))
        # By digest it names a file that need not be there.
        exists = there.exists() or (place.asked != place.url and there.parent.exists())
        found = ok(place.kind, "is there", subject=subject) if exists else _missing(place.kind, subject)
        return Answer(place, found)
    started = time.monotonic()
    try:
        response = _head(client, place.asked)
    except LockbuildError as error:
        return Answer(place, warning(place.kind, error.what, subject=subject, remedy=error.hint))
    seconds = time.monotonic() - started
    response.close()
    skew = _skew(response.headers.get("Date", ""), clock(), seconds)
    if response.status_code in _OK:
        found = ok(
            place.kind, f"answers in {seconds * 1000:.0f} ms", subject=subject, seconds=round(seconds, 3)
        )
        return Answer(place, found, skew)
    failure = refusal(response, place.asked, credentials)
    return Answer(place, warning(place.kind, failure.what, subject=subject, remedy=failure.hint), skew)


def _head(client: Client, url: str) -> requests.Response:
    """The answer, whatever its status; no body is read."""
    headers, every = {"Accept-Encoding": "identity"}, range(100, 1000)
    response = client.send("HEAD", url, headers, expected=every)
    if response.status_code in _NO_HEAD:
        response.close()
        response = client.send("GET", url, headers, expected=every)
    return response


def clock_finding(answers: Iterable[Answer]) -> Iterator[Finding]:
    """This machine's clock against those of the places that answered."""
    skews = [answer.skew for answer in answers if answer.skew is not None]
    if not skews:
        return
    skew = statistics.median(skews)
    servers = f"{len(skews)} server{'s' if len(skews) > 1 else ''}"
    if abs(skew) <= _SKEW:
        yield ok("clock", f"agrees with {servers}")
        return
    way = "behind" if skew > 0 else "ahead of"
    yield warning(
        "clock",
        f"this machine's clock is {_duration(abs(skew))} {way} {servers}; signed indexes and certificates may seem "
        "expired or not yet valid",
        remedy="set the clock (`timedatectl set-ntp true`)"
        + ("" if len(skews) > 1 else ", unless that one server's is wrong"),
    )


def preference(answers: Iterable[Answer]) -> Iterator[Finding]:
    """Where the place that is asked first is much slower than another of its kind."""
    by_kind: dict[Kind, list[Answer]] = {}
    for answer in answers:
        if answer.finding.seconds is not None and answer.place.kind in ("debian", "pypi"):
            by_kind.setdefault(answer.place.kind, []).append(answer)
    for kind, group in by_kind.items():
        first, best = group[0], min(group, key=lambda answer: answer.finding.seconds or 0.0)
        slow, fast = first.finding.seconds or 0.0, best.finding.seconds or 0.0
        if slow > 0.3 and slow > 3 * fast:
            key = "[debian] mirrors" if kind == "debian" else "[pypi] indexes"
            yield warning(
                kind,
                f"it is asked first, and {redact(best.place.url)} answers {slow / fast:.0f} times as fast",
                subject=redact(first.place.url),
                remedy=f"put that first in lockbuild's config.toml ({key})",
            )


def _missing(kind: Kind, subject: str) -> Finding:
    return warning(
        kind, "there is no such file or directory", subject=subject, remedy="correct the configuration"
    )


def _skew(date: str, now: float, seconds: float) -> float | None:
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return None
    # The answer was made on the way, and its date has no fractions.
    return theirs + 0.5 - (now - seconds / 2)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
