"""Places that are a help and no need: the first that has what is wanted gives it.

One that does not answer, refuses, or has something else under a name is told of once and passed over from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from lockbuild.errors import IntegrityError, UsageError
from lockbuild.events import Note, Reporter
from lockbuild.transport.failures import TransferError
from lockbuild.transport.transfers import Transfers

P = TypeVar("P")


class HelpfulPlaces(Generic[P]):
    """Remembers which are of use, for one command. Thread-safe.

    ``kind`` is what messages call such a place, and its text which one it is. `StoppedError` of ``transfers`` is
    what each of them is let end by.
    """

    def __init__(self, kind: str, transfers: Transfers, report: Reporter) -> None:
        self._kind = kind
        self._transfers = transfers
        self._report = report
        self._lock = threading.Lock()
        self._passed_over: set[P] = set()

    def first(self, places: Iterable[P], name: str, fetch: Callable[[P], bool]) -> bool:
        """Whether one of the places had it: ``fetch`` makes it there, or says False. ``name`` says what it is."""
        for place in places:
            if not self.is_useful(place):
                continue
            try:
                if fetch(place):
                    return True
            except (TransferError, IntegrityError, UsageError) as error:
                self._transfers.check()
                self.pass_over(place, f"{name}: {error.what}")
        return False

    def is_useful(self, place: P) -> bool:
        """Whether it was not passed over."""
        with self._lock:
            return place not in self._passed_over

    def pass_over(self, place: P, why: str) -> None:
        """Ask it nothing any more, and say so once."""
        with self._lock:
            known = place in self._passed_over
            self._passed_over.add(place)
        if not known:
            self._report(Note(f"the {self._kind} {place} is passed over: {why}", "warning"))
