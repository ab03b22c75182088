"""Where a file of a Debian archive may be: the configured mirrors, then the snapshot service.

A mirror keeps only what its current suites name; a snapshot service keeps every state by timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from lockbuild.fetch.places import Expectation, Places
from lockbuild.model.lock import Source, Suite

HINT = (
    "it has left the mirror: name a snapshot service in lockbuild's config.toml"
    ' ([debian] snapshot = "https://…"), or lock again with `lockbuild lock --upgrade`'
)
"""What to do where no place has the file any more."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """URLs in the order in which to try them."""
    path = quote(source.path or "", safe="/~")
    for mirror in places.config.debian_mirrors():
        yield f"{mirror.rstrip('/')}/{path}"
    from lockbuild.config.apt import snapshot_url

    service = places.config.snapshot_service()
    if service is not None:
        for timestamp in places.timestamps.get(_distribution(source), ()):
            yield f"{snapshot_url(service, timestamp)}/{path}"


def expectation(source: Source, places: Places) -> Expectation:
    """Where the file would come from."""
    return Expectation("a Debian mirror", source.path or source.purl)


def timestamps_of(suites: Iterable[Suite]) -> dict[str, tuple[str, ...]]:
    """Suite name and codename -> the snapshot times at which the suite was as locked, the surest first.

    A service answers a time with the last state before it, and states are taken some hours after the Date
    of a suite's index; packages stay in the pool for more than a day after a suite has dropped them. So a
    day later is surer than the Date itself.
    """
    times: dict[str, list[str]] = {}
    for suite in suites:
        for known in (suite.snapshot, _timestamp(suite.date, timedelta(days=1)), _timestamp(suite.date)):
            for name in (suite.name, suite.codename):
                if known and known not in times.setdefault(name, []):
                    times[name].append(known)
    return {name: tuple(known) for name, known in times.items()}


def _timestamp(date: str, later: timedelta = timedelta()) -> str | None:
    """A Release file's Date (Debian repository format, RFC 2822) or an ISO 8601 one, as a snapshot's name."""
    try:
        when = datetime.fromisoformat(date)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            when = parsedate_to_datetime(date)
        except ValueError:
            return None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return (when + later).strftime("%Y%m%dT%H%M%SZ")


def _distribution(source: Source) -> str:
    from packageurl import PackageURL

    qualifiers = PackageURL.from_string(source.purl).qualifiers
    return str(qualifiers.get("distro", "")) if isinstance(qualifiers, dict) else ""
