"""A resource in pieces as it comes, gone on with where the transfer breaks off: for who has a use for bytes at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.transport.body import Body
from lockbuild.transport.failures import BrokenTransferError, MalformedError
from lockbuild.transport.transfers import Transfers

MOST_STALLS = 4
"""How often in a row a transfer may break off without having come further."""
PAUSE = 0.25
"""Seconds before a transfer that came no further is tried again; it doubles with each."""

Stream = Callable[[int], Body]
"""Opens the resource from an offset on, or from 0 where the server gives no parts."""


def pieces(
    stream: Stream, transfers: Transfers, *, size: int | None = None, digest: Digest | None = None
) -> Iterator[bytes]:
    """The bytes of the resource.

    IntegrityError where they are not ``size`` many (where that is None, as many as the server says at first) or,
    before the last piece, not those of ``digest``; without one, what they are is for the caller to see.
    BrokenTransferError where it breaks off time and again.
    """
    hasher = hashlib.sha256()
    position = stalled = 0
    while True:
        before = position
        try:
            with transfers.watching(stream(position)) as body:
                size = body.total if size is None else size
                if body.total is not None and body.total != size:
                    raise IntegrityError(f"{body.total} bytes are there, {size} are wanted", on=body.url)
                if body.offset != position:
                    raise MalformedError("the server cannot go on where it broke off", on=body.url)
                for chunk in body:
                    transfers.check()
                    position += len(chunk)
                    if size is not None and position > size:
                        raise IntegrityError(f"more than {size} bytes come", on=body.url)
                    if digest is not None:
                        hasher.update(chunk)
                        if position == size and hasher.hexdigest() != digest.hex:
                            raise IntegrityError(f"what came is not {digest}", on=body.url)
                    yield chunk
                if size is not None and position < size:
                    raise BrokenTransferError(f"it ended after {position} of {size} bytes", on=body.url)
                if digest is not None and hasher.hexdigest() != digest.hex:
                    raise IntegrityError(f"what came is not {digest}", on=body.url)
                return
        except BrokenTransferError:
            transfers.check()
            stalled = 0 if position > before else stalled + 1
            if stalled > MOST_STALLS:
                raise
            transfers.pause(PAUSE * 2**stalled if stalled else 0)
