"""Where a file with a URL of its own is: there."""

from __future__ import annotations

from collections.abc import Iterator

from lockbuild.fetch.places import Expectation, Places, expected_at
from lockbuild.model.lock import Source

HINT = "correct the URL in the manifest and lock again"
"""What to do where the file is not there."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """The one URL, if the lock has it."""
    if source.url is not None:
        yield source.url


def expectation(source: Source, places: Places) -> Expectation:
    """Where the file would come from."""
    if source.url is None:
        return Expectation("a place that the lock does not name", source.purl)
    return expected_at(places.config.places(source.url))
