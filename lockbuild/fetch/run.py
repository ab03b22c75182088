"""One call of `Fetcher.fetch`: threads that take sources from one queue, and one verdict at the end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.events import Finished, Reporter, Started
from lockbuild.fetch import deb, git, npm, oci, pypi, url
from lockbuild.fetch.download import Downloader, Failure
from lockbuild.fetch.places import Expectation, Places
from lockbuild.fetch.progress import OVERALL, FileProgress
from lockbuild.fetch.verdict import Failed, absent, failed, untried, verdict
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.transport.failures import (
    TransferError,
    UnreachableError,
)
from lockbuild.transport.transfers import StoppedError, Transfers

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.git.repositories import GitRepositories
    from lockbuild.transport.http import Http
    from lockbuild.transport.registry.registries import Registries

_KEEPERS: dict[str, ModuleType] = {"deb": deb, "pypi": pypi, "npm": npm, "oci": oci, "generic": url}
_PATIENCE = 2.0
"""Seconds that running transfers get to put down what they have when everything is called off."""


class Run:
    """One call of `Fetcher.fetch`."""

    def __init__(
        self,
        store: Store,
        http: Http,
        config: Config,
        report: Reporter,
        places: Places,
        missing: list[Source],
        *,
        repositories: GitRepositories | None = None,
        registries: Registries | None = None,
    ) -> None:
        self._store = store
        self._http = http
        self._config = config
        self._repositories = repositories
        self._registries = registries
        self._report = report
        self._places = places
        self._missing = missing
        self._transfers = Transfers()
        self._downloader = Downloader(store, http, self._transfers, retries=config.network.retries)
        # The largest first: so no thread is left alone with it at the end.
        self._waiting = deque(sorted(missing, key=lambda source: -(source.size or 1 << 62)))
        self._connections = config.network.connections
        self._failures: dict[Digest, Failed] = {}
        self._fetched: set[Digest] = set()
        self._storage: list[FetchError] = []
        self._broken: list[BaseException] = []
        self._hopeless = threading.Event()
        self._ended = threading.Semaphore(0)

    def run(self) -> None:
        sizes = [source.size for source in self._missing]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        self._report(Started(OVERALL, f"Fetching {len(sizes)} file{'s' if len(sizes) != 1 else ''}", total))
        # Daemons: an interrupted process must not wait for a server that says nothing.
        threads = [
            threading.Thread(target=self._work, name=f"fetch-{number}", daemon=True)
            for number in range(min(self._connections, len(self._missing)))
        ]
        begun = ended = 0
        try:
            for thread in threads:
                thread.start()
                begun += 1
            # Not Thread.join: when that is interrupted, Python before 3.13 takes the thread for ended.
            while ended < begun:
                self._ended.acquire()
                ended += 1
        except BaseException:
            self._waiting.clear()
            self._transfers.stop()
            if self._repositories is not None:
                self._repositories.stop()
            deadline = time.monotonic() + _PATIENCE
            while ended < begun and self._ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
                ended += 1
            raise
        finally:
            self._report(Finished(OVERALL))
        if self._broken:
            raise self._broken[0]
        wrong = any(isinstance(each.error, IntegrityError) for each in self._failures.values())
        if self._storage and not wrong:
            raise self._storage[0]
        if self._failures:
            raise verdict(list(self._failed()), self._report)

    def _work(self) -> None:
        try:
            while not self._hopeless.is_set():
                try:
                    source = self._waiting.popleft()
                except IndexError:
                    return
                self._one(source)
        except StoppedError:
            pass
        except BaseException as error:
            self._broken.append(error)
            self._waiting.clear()
        finally:
            self._ended.release()

    def _one(self, source: Source) -> None:
        progress = FileProgress(source, self._report)
        try:
            failures = self._downloader.download(source, self._candidates(source), progress)
            if failures is not None and source.commit is not None:
                failures = self._from_repository(source, failures)
            elif failures is not None and source.purl.startswith("pkg:oci/"):
                failures = self._from_registry(source, failures, progress)
        except FetchError as error:  # the disk's: no other source will fare better
            self._storage.append(error)
            self._hopeless.set()
            return
        finally:
            progress.finish()
        if failures is None:
            self._fetched.add(source.identity)
        else:
            self._failures[source.identity] = self._verdict(source, failures)
            if failures and all(isinstance(failure, UnreachableError) for failure in failures):
                self._hopeless.set()  # each further source would wait for the same silence

    def _candidates(self, source: Source) -> Iterator[str]:
        """Every place, each once: those that go by the digest first, as they are the user's own."""
        seen = set(self._by_digest(source))
        yield from self._by_digest(source)
        for wanted in _keeper(source).candidates(source, self._places):
            for place in self._config.places(wanted):
                if place not in seen:
                    seen.add(place)
                    yield place

    def _by_digest(self, source: Source) -> list[str]:
        sha256 = None if source.sha256 is None else source.sha256.hex
        return self._config.places_of_digest(sha256=sha256, sha512=source.sha512)

    def _from_repository(self, source: Source, failures: list[Failure]) -> list[Failure] | None:
        if self._repositories is None:
            return failures
        try:
            git.fetch(source, self._store, self._repositories, self._places)
        except (TransferError, IntegrityError) as error:
            return [*failures, error]
        return None

    def _from_registry(
        self, source: Source, failures: list[Failure], progress: FileProgress
    ) -> list[Failure] | None:
        if self._registries is None:
            return failures
        try:
            oci.fetch(source, self._store, self._registries, self._transfers)
        except (TransferError, IntegrityError) as error:
            return [*failures, error]
        progress.at(source.size or 0, exactly=True)
        return None

    def _expectation(self, source: Source) -> Expectation:
        """Where it should be: what goes by the digest as the template that it is."""
        known: Expectation = _keeper(source).expectation(source, self._places)
        templates = [mirror.by_digest for mirror in self._config.mirrors if mirror.by_digest is not None]
        if not templates or not self._by_digest(source):
            return known
        return Expectation(" or ".join([*map(redact, templates), known.place]), known.item)

    def _verdict(self, source: Source, failures: list[Failure]) -> Failed:
        expectation = self._expectation(source)
        if self._http.offline and not any(isinstance(failure, IntegrityError) for failure in failures):
            return absent(source, expectation)
        return failed(source, expectation, failures, _keeper(source).HINT)

    def _failed(self) -> Iterator[Failed]:
        """What is not there, in the lock's order."""
        for source in self._missing:
            if source.identity in self._failures:
                yield self._failures[source.identity]
            elif source.identity not in self._fetched:
                yield untried(source, self._expectation(source))


def _keeper(source: Source) -> ModuleType:
    if source.commit is not None:
        return git
    kind = source.purl.removeprefix("pkg:").partition("/")[0]
    return _KEEPERS.get(kind, url)
