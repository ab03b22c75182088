"""Read URLs, wherever the user's mirrors have them: the one way to the network for indexes and archives.

A URL has one or more places (`Config.places`). They are asked in order until one has it; if none has, the error
says what each did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlsplit

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.events import Note, Reporter, silent
from lockbuild.transport.body import Body
from lockbuild.transport.client import Client, Document
from lockbuild.transport.documents import Documents, NoDocuments
from lockbuild.transport.failures import TransferError, UnreachableError, of_all_places

T = TypeVar("T")


class Http:
    """Thread-safe; a context manager. ``direct`` reads from a place as it is, past the mirrors.

    ``documents`` is for readers of indexes: what they find there they need not read, and what they read they note.
    ``offline`` lets only file:// places through. ``first_wait`` is the pause before the first retry in
    seconds; it doubles with each.
    """

    def __init__(
        self,
        config: Config,
        *,
        offline: bool = False,
        report: Reporter = silent,
        first_wait: float = 0.5,
        documents: Documents | None = None,
    ) -> None:
        self.offline = offline
        self.documents: Documents = documents or NoDocuments()
        self.direct = Client(config, offline=offline, report=report, first_wait=first_wait)
        self._config = config
        self._report = report
        self._lock = threading.Lock()
        # Who did not answer is asked last from then on: every time would cost all the retries.
        self._silent: set[tuple[str, ...]] = set()

    def __enter__(self) -> Http:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections and end waits; the object is of no use afterwards."""
        self.direct.close()

    def get(self, url: str, *, limit: int, check: Callable[[bytes], None] | None = None) -> bytes:
        """The whole resource as stored; TooLargeError beyond ``limit`` bytes.

        ``check`` raises IntegrityError where the bytes are not those that are wanted: then the next place is
        asked, as a mirror may be behind.
        """

        def read(place: str) -> bytes:
            data = self.direct.get(place, limit=limit)
            if check is not None:
                check(data)
            return data

        return self._first(url, read)

    def read(self, url: str, *, limit: int, accept: str) -> Document:
        """The whole resource in one of the media types ``accept``, any Content-Encoding undone.

        TooLargeError beyond ``limit`` bytes, after decoding.
        """
        return self._first(url, lambda place: self.direct.read(place, limit=limit, accept=accept))

    def stream(self, url: str, *, offset: int = 0, validator: str | None = None) -> Body:
        """Open the resource from ``offset`` on, if the server can and it still has ``validator``.

        Look at ``Body.offset`` for where it really starts: at ``offset`` or at 0, nowhere else.
        Retries until there is a response; BrokenTransferError while iterating is for the caller to go on from.
        """
        return self._first(url, lambda place: self.direct.stream(place, offset=offset, validator=validator))

    def size(self, url: str) -> int | None:
        """Size of the resource in bytes, None where the server does not say. Sends HEAD."""
        return self._first(url, self.direct.size)

    def slice(self, url: str, offset: int, length: int) -> bytes | None:
        """``length`` bytes from ``offset`` on; None where the server cannot give a part."""
        return self._first(url, lambda place: self.direct.slice(place, offset, length))

    def _first(self, url: str, read: Callable[[str], T]) -> T:
        places = self._config.places(url)
        if len(places) == 1:
            return read(places[0])
        failures: list[TransferError | IntegrityError] = []
        for place in sorted(places, key=self._is_silent):
            try:
                return read(place)
            except (TransferError, IntegrityError) as error:
                failures.append(error)
                self._report(Note(f"{redact(place)}: {error.what}; asking the next place", "debug"))
                if type(error) is UnreachableError:
                    with self._lock:
                        self._silent.add(urlsplit(place)[:2])
        raise of_all_places(url, failures)

    def _is_silent(self, place: str) -> bool:
        return urlsplit(place)[:2] in self._silent
