"""What the modules that know where sources are kept have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockbuild.config import Config
from lockbuild.config.urls import redact

if TYPE_CHECKING:
    from lockbuild.transport.index import PackageIndexes


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: the user's ``config``, the ``indexes`` (pages read once a run), and for each Debian
    suite's name or codename the snapshot ``timestamps`` (20261101T000000Z) that the lock knows. ``references`` has
    for commits the reference of its repository (``refs/tags/v1``) that each was when it was locked."""

    config: Config
    indexes: PackageIndexes
    timestamps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expectation:
    """For people: ``place`` has the file, which is called ``item`` there. Many sources have one place in common."""

    place: str
    item: str

    def __str__(self) -> str:
        return f"{self.place}{self.item}" if self.item.startswith("/") else f"{self.place}: {self.item}"


def expected_at(urls: Sequence[str]) -> Expectation:
    """That of a file with these URLs: what is before the path, where there is one only."""
    shown = [redact(url) for url in urls]
    parts = urlsplit(shown[0])
    place = f"{parts.scheme}://{parts.netloc}"
    if len(shown) > 1 or not parts.netloc:
        return Expectation(" or ".join(shown), parts.path.rpartition("/")[2])
    return Expectation(place, shown[0].removeprefix(place))
