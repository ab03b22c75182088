"""One source into the store: resumed where it broke off, its size checked as it comes, its digest at the end.

A source has several places. A place that has the wrong bytes is passed over for the next one; only when
none is left does the download fail, with what each place did wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.fetch.progress import FileProgress
from lockbuild.model.lock import Source
from lockbuild.transport.body import Body
from lockbuild.transport.failures import BrokenTransferError, TransferError, UnreachableError
from lockbuild.transport.transfers import Transfers

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.store.partial import Partial
    from lockbuild.transport.http import Http


_HINT = "what is there is not what was locked; if the change is wanted, lock again with `lockbuild lock --upgrade`"
_PAUSE = 0.25
"""Seconds before a transfer that came no further is tried again; it doubles with each."""


class _OtherFileError(IntegrityError):
    """The place says beforehand that it has a file of another size; what has come stays good."""


Failure = TransferError | IntegrityError
"""What a place can do wrong."""


class Downloader:
    """Downloads into ``store``. Thread-safe. ``retries`` is how often in a row a transfer may break off
    without having come further."""

    def __init__(self, store: Store, http: Http, transfers: Transfers, *, retries: int) -> None:
        self._store = store
        self._http = http
        self._transfers = transfers
        self._retries = retries
        # Who did not answer is not asked again for each file: every time would cost all the retries.
        self._silent: dict[tuple[str, ...], UnreachableError] = {}

    def download(
        self, source: Source, candidates: Iterator[str], progress: FileProgress
    ) -> list[Failure] | None:
        """Fetch ``source`` from the first place that has it: None. Otherwise what each place did wrong.

        FetchError where the store cannot take it, StoppedError where `Transfers.stop` was called.
        """
        failures: list[Failure] = []
        try:
            for url in candidates:
                origin = urlsplit(url)[:2]
                try:
                    if origin in self._silent:
                        known = self._silent[origin]
                        raise UnreachableError(known.what, on=redact(url), hint=known.hint)
                    self._from(url, source, progress)
                except (TransferError, IntegrityError) as error:
                    self._transfers.check()
                    failures.append(error)
                    if type(error) is UnreachableError:
                        self._silent[origin] = error
                else:
                    return None
        except TransferError as error:  # from the candidates: an index that cannot be read
            failures.append(error)
        return failures

    def _from(self, url: str, source: Source, progress: FileProgress) -> None:
        """Everything that one place can give: resumed as long as it comes further, judged at the end."""
        from lockbuild.store.partial import Binding

        binding = Binding(source.identity, source.sha256, source.sha512)
        validator: str | None = None
        furthest = -1
        stalled = 0
        judged = False
        while True:
            with self._store.partial(binding) as partial:
                if partial.complete:
                    return  # another process was faster
                if source.size is not None and partial.size > source.size:
                    partial.restart()
                progress.at(partial.size, exactly=True)
                mixed = partial.size > 0
                try:
                    if source.size is None or partial.size < source.size:
                        body = self._http.direct.stream(url, offset=partial.size, validator=validator)
                        validator = body.validator
                        mixed = mixed and body.resumed
                        with self._transfers.watching(body):
                            self._receive(body, source, partial, progress)
                    partial.commit()
                    progress.at(source.size or partial.size, exactly=True)
                    return
                except BrokenTransferError:
                    self._transfers.check()
                    stalled = 0 if partial.size > furthest else stalled + 1
                    furthest = max(furthest, partial.size)
                    if stalled > self._retries:
                        raise
                except _OtherFileError:
                    raise
                except IntegrityError as error:
                    # Bytes of an earlier run, of another place or of a file changed meanwhile can be at
                    # fault: judge the place by one transfer from the start.
                    if judged or not mixed:
                        raise IntegrityError(
                            f"{source.purl}: {error.what}; the lock says {_bound(source)}",
                            on=redact(url),
                            hint=_HINT,
                        ) from None
                    judged = True
                    validator = None
                    furthest = -1
            self._transfers.pause(_PAUSE * 2**stalled if stalled else 0)

    def _receive(self, body: Body, source: Source, partial: Partial, progress: FileProgress) -> None:
        if source.size is not None and body.total is not None and body.total != source.size:
            raise _OtherFileError(
                f"{source.purl}: the server has {body.total} bytes, the lock says {source.size}",
                on=body.url,
                hint=_HINT,
            )
        if body.offset != partial.size:
            partial.restart()
            progress.at(0, exactly=True)
        size = partial.size
        for chunk in body:
            size += len(chunk)
            if source.size is not None and size > source.size:
                partial.restart()
                raise IntegrityError(
                    f"the server sends more than the {source.size} bytes that the lock says",
                    on=body.url,
                )
            partial.write(chunk)
            progress.at(size)
            self._transfers.check()
        if source.size is not None and size < source.size:
            raise BrokenTransferError(f"the transfer ended after {size} of {source.size} bytes", on=body.url)


def _bound(source: Source) -> str:
    """For people: the digests that the lock says."""
    sha512 = None if source.sha512 is None else f"sha512:{source.sha512}"
    return " and ".join(str(digest) for digest in (source.sha256, sha512) if digest is not None)
