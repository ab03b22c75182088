"""A registry's blob as it comes: resumed where it broke off, verified at the end; into the store, or past it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Finished, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.transport.body import Body
from lockbuild.transport.failures import BrokenTransferError, MalformedError
from lockbuild.transport.transfers import Transfers

_MOST_STALLS = 4
_PAUSE = 0.25
"""Seconds before a transfer that came no further is tried again; it doubles with each."""

Stream = Callable[[int], Body]
"""Opens the blob from an offset on, or from 0 where the server gives no parts."""


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
                    if stalled > _MOST_STALLS:
                        raise
                except IntegrityError:
                    # What an earlier run left may be at fault: judge by one transfer from the start.
                    if judged or not mixed:
                        raise
                    judged, furthest = True, -1
            transfers.pause(_PAUSE * 2**stalled if stalled else 0)
    finally:
        report(Finished(key))


def chunks(stream: Stream, digest: Digest, size: int, transfers: Transfers) -> Iterator[bytes]:
    """The bytes of the blob in pieces, gone on with where the transfer breaks off.

    IntegrityError, before the last piece, where they are not those of ``digest`` or not ``size`` many.
    """
    hasher = hashlib.sha256()
    position = stalled = 0
    while True:
        before = position
        try:
            with transfers.watching(stream(position)) as body:
                if body.total is not None and body.total != size:
                    raise IntegrityError(
                        f"the registry has {body.total} bytes, {size} are wanted", on=body.url
                    )
                if body.offset != position:
                    raise MalformedError("the registry cannot go on where it broke off", on=body.url)
                for chunk in body:
                    transfers.check()
                    position += len(chunk)
                    hasher.update(chunk)
                    if position > size or (position == size and hasher.hexdigest() != digest.hex):
                        raise IntegrityError(f"what came is not {digest}", on=body.url)
                    yield chunk
                if position < size:
                    raise BrokenTransferError(f"it ended after {position} of {size} bytes", on=body.url)
                if not size and hasher.hexdigest() != digest.hex:
                    raise IntegrityError(f"what came is not {digest}", on=body.url)
                return
        except BrokenTransferError:
            transfers.check()
            stalled = 0 if position > before else stalled + 1
            if stalled > _MOST_STALLS:
                raise
            transfers.pause(_PAUSE * 2**stalled if stalled else 0)


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
