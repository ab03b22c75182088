"""A registry's blob into the store: resumed where it broke off, verified at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Finished, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.transport.body import Body
from lockbuild.transport.failures import BrokenTransferError, MalformedError
from lockbuild.transport.pieces import MOST_STALLS, PAUSE, Stream
from lockbuild.transport.transfers import Transfers


class PartialBlob(Protocol):
    """A download under way (`lockbuild.store.partial.Partial`)."""

    size: int

    @property
    def complete(self) -> bool: ...
    def write(self, data: bytes | memoryview) -> None: ...
    def restart(self) -> None: ...
    def commit(self) -> Path: ...


class BlobStore(Protocol):
    """Where blobs go (`lockbuild.store.Store`)."""

    def has_blob(self, digest: Digest) -> bool: ...
    def partial(self, wanted: Digest) -> AbstractContextManager[PartialBlob]: ...


def fetch(
    stream: Stream,
    digest: Digest,
    size: int | None,
    store: BlobStore,
    report: Reporter,
    label: str,
    transfers: Transfers,
) -> None:
    """Bring the blob ``digest`` into ``store``.

    IntegrityError where what comes is not it; BrokenTransferError where the transfer breaks off time and again.
    """
    key = f"blob:{digest}"
    report(Started(key, label, size))
    shown = 0

    def at(position: int) -> None:
        nonlocal shown
        if position != shown:
            report(Advanced(key, position - shown))
            shown = position

    try:
        furthest, stalled, judged = -1, 0, False
        while True:
            with store.partial(digest) as partial:
                if partial.complete:
                    return
                if size is not None and partial.size > size:
                    partial.restart()
                mixed = partial.size > 0
                try:
                    if size is None or partial.size < size:
                        with transfers.watching(stream(partial.size)) as body:
                            mixed = mixed and body.offset > 0
                            _receive(body, size, partial, at, transfers)
                    partial.commit()
                    return
                except (BrokenTransferError, MalformedError) as error:
                    transfers.check()
                    if isinstance(error, MalformedError):
                        if not mixed:
                            raise
                        partial.restart()  # a server that gives other parts than it is asked for
                    stalled = 0 if partial.size > furthest else stalled + 1
                    furthest = max(furthest, partial.size)
                    if stalled > MOST_STALLS:
                        raise
                except IntegrityError:
                    # What an earlier run left may be at fault: judge by one transfer from the start.
                    if judged or not mixed:
                        raise
                    judged, furthest = True, -1
            transfers.pause(PAUSE * 2**stalled if stalled else 0)
    finally:
        report(Finished(key))


def _receive(
    body: Body, size: int | None, partial: PartialBlob, at: Callable[[int], None], transfers: Transfers
) -> None:
    if size is not None and body.total is not None and body.total != size:
        raise IntegrityError(f"the registry has {body.total} bytes, {size} are wanted", on=body.url)
    if body.offset != partial.size:
        partial.restart()
    at(partial.size)
    for chunk in body:
        if size is not None and partial.size + len(chunk) > size:
            partial.restart()
            raise IntegrityError(f"the registry sends more than {size} bytes", on=body.url)
        partial.write(chunk)
        at(partial.size)
        transfers.check()
    if size is not None and partial.size < size:
        raise BrokenTransferError(f"the transfer ended after {partial.size} of {size} bytes", on=body.url)
