"""``trust = "first-use"``: bytes whose digest nobody publishes, downloaded once while locking.

Whatever comes is taken, and the lock says so; from then on it is bound like everything else.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.config.urls import redact
from lockbuild.errors import storage_error
from lockbuild.events import Advanced, Finished, Note, Started
from lockbuild.model.digest import Digest
from lockbuild.resolve.context import ResolveContext
from lockbuild.transport.failures import BrokenTransferError

if TYPE_CHECKING:
    from hashlib import _Hash


def take(url: str, context: ResolveContext, *, on: str) -> tuple[Digest, int]:
    """Download ``url`` into the store; the SHA-256 of what came, and its size in bytes. ``on`` is the request's key.

    What the context says to be trusted already is not downloaded. A transfer that breaks off is gone on with.
    FetchError where it cannot be had or stored.
    """
    known = context.trusted.get(url)
    if known is not None and known.sha256 is not None and known.size is not None:
        return known.sha256, known.size
    key = f"{on}: {redact(url)}"
    context.report(Started(key, redact(url).rpartition("/")[2] or redact(url), None))
    try:
        with context.store.scratch() as directory:
            file = directory / "download"
            with file.open("w+b") as stream:
                digest, size = _Download(url, context, key, stream).run()
            context.store.add_file(file, digest)
    except OSError as error:
        raise storage_error(error, "cannot store what is trusted on first use", on=redact(url)) from error
    finally:
        context.report(Finished(key))
    context.report(
        Note(
            f"{on}: nobody publishes a digest of {redact(url)}; took the {size:,} bytes that came, {digest}",
            "warning",
        )
    )
    return digest, size


class _Download:
    def __init__(self, url: str, context: ResolveContext, key: str, out: BinaryIO) -> None:
        self._url = url
        self._context = context
        self._key = key
        self._out = out
        self._hash: _Hash = hashlib.sha256()
        self._size = 0

    def run(self) -> tuple[Digest, int]:
        validator: str | None = None
        furthest = stalled = 0
        while True:
            try:
                # Without a validator nobody would say whether it is still the same file: then from the start.
                offset = self._size if validator else 0
                with self._context.http.stream(self._url, offset=offset, validator=validator) as body:
                    if body.offset != self._size:
                        self._restart()
                    validator = body.validator
                    for chunk in body:
                        self._take(chunk)
                return Digest(self._hash.hexdigest()), self._size
            except BrokenTransferError:
                stalled = 0 if self._size > furthest else stalled + 1
                furthest = max(furthest, self._size)
                if stalled > self._context.config.network.retries:
                    raise

    def _take(self, chunk: bytes) -> None:
        self._out.write(chunk)
        self._hash.update(chunk)
        self._size += len(chunk)
        self._context.report(Advanced(self._key, len(chunk)))

    def _restart(self) -> None:
        self._out.seek(0)
        self._out.truncate()
        self._hash = hashlib.sha256()
        if self._size:
            self._context.report(Advanced(self._key, -self._size))
        self._size = 0
