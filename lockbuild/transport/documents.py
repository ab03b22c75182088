"""What a resolver reads beside what a digest binds: signed indexes, pages, references of repositories.

Where there is no network, that can be read out of what was kept of it somewhere else: each document under a name
that says what it is and names no host, since mirrors differ from site to site. Whoever reads one believes it as much
as the index or server that it is of: what a signature or an object id proves is proven again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Documents(Protocol):
    """Where documents are kept. Thread-safe. ``recording`` asks to read also what could be done without."""

    recording: bool

    def find(self, name: str) -> bytes | None:
        """The document of that name; None where there is none."""

    def note(self, name: str, data: bytes) -> None:
        """Keep what was read."""


class NoDocuments:
    """Keeps nothing."""

    recording = False

    def find(self, name: str) -> bytes | None:
        return None

    def note(self, name: str, data: bytes) -> None:
        pass


def kept_or_read(documents: Documents, name: str, read: Callable[[], bytes]) -> bytes:
    """The document of that name, kept or read (and then kept). What ``read`` raises comes through."""
    data = documents.find(name)
    if data is None:
        data = read()
        documents.note(name, data)
    return data
