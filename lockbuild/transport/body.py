"""The body of a response as an iterator of chunks, from a server or from a local file alike."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.config.urls import redact
from lockbuild.reading import open_regular
from lockbuild.transport.failures import BrokenTransferError, TooLargeError, TooSlowError

if TYPE_CHECKING:
    import requests

CHUNK = 256 * 1024
"""Bytes at most in one chunk: hashing and writing are fast from here on, and a stop is noticed soon."""
SLOWEST = 1024
"""Bytes a second, on average over `SLOWEST_FOR`, below which nobody is waited for: a byte now and then keeps any
time-out from ever passing."""
SLOWEST_FOR = 60.0
"""Seconds of waiting for bytes; what is done with them in between does not count."""


class Body(ABC):
    """An open response: iterate for its bytes, once; a context manager that closes it.

    ``location`` is where it came from in the end, to resolve links against; ``url`` the same without
    secrets, to show. ``status`` is HTTP's. ``offset`` is where in the resource the first byte stands: 0
    unless ``resumed``. ``total`` is the size of the whole resource
    and ``validator`` its strong ETag, where known. Iterating raises BrokenTransferError where the bytes
    end too early, TooSlowError where they come too slowly to ever be waited for.
    """

    location: str
    url: str
    status: int
    offset: int
    total: int | None
    validator: str | None
    content_type: str

    @property
    def resumed(self) -> bool:
        """Whether the server goes on where it was asked to."""
        return self.status == 206

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """Chunks of at most `CHUNK` bytes, as they come."""

    @abstractmethod
    def abort(self) -> None:
        """Make a blocked iteration end soon, from another thread."""

    @abstractmethod
    def close(self) -> None:
        """Release the connection or file."""

    def __enter__(self) -> Body:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HttpBody(Body):
    """From a server. ``decode`` undoes a Content-Encoding; else the bytes are as stored."""

    def __init__(self, response: requests.Response, *, offset: int, total: int | None, decode: bool) -> None:
        self._response = response
        self._decode = decode
        self.location = response.url or ""
        self.url = redact(self.location)
        self.status = response.status_code
        self.offset = offset
        self.total = total
        etag = response.headers.get("ETag", "")
        # RFC 9110, section 13.1.5: a weak validator does not do for If-Range.
        self.validator = etag if etag.startswith('"') else None
        self.content_type = response.headers.get("Content-Type", "")

    def __iter__(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        raw = self._response.raw
        received = self.offset
        try:
            pace = _Pace(self.url)
            # read1 gives what has come already; read would hold back up to a chunk when the line is slow.
            while chunk := pace.of(lambda: raw.read1(CHUNK, decode_content=self._decode)):
                received += len(chunk)
                yield chunk
        except (HTTPError, OSError, ValueError) as error:
            raise self._broken(_reason(error)) from None
        if not self._decode and self.total is not None and received < self.total:
            raise self._broken(f"it ended after {received} of {self.total} bytes")

    def _broken(self, reason: str) -> BrokenTransferError:
        return BrokenTransferError(f"the transfer broke off: {reason}", on=self.url)

    def abort(self) -> None:
        # Already closed or handed back to the pool: then nothing blocks.
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            self._response.raw.shutdown()

    def close(self) -> None:
        self._response.close()


class FileBody(Body):
    """From a local file."""

    content_type = ""
    validator = None

    def __init__(self, url: str, path: Path, offset: int) -> None:
        self._file: BinaryIO = open_regular(path)
        self.location = self.url = url
        self.total = path.stat().st_size
        self.offset = offset if 0 < offset < self.total else 0
        self.status = 206 if self.offset else 200
        self._file.seek(self.offset)

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._file.read(CHUNK):
                yield chunk
        except OSError as error:
            raise BrokenTransferError(f"cannot be read: {error.strerror}", on=self.url) from None

    def abort(self) -> None:
        """Reading a local file blocks for no longer than a chunk."""

    def close(self) -> None:
        self._file.close()


def whole(body: Body, limit: int) -> bytes:
    """All bytes of ``body``, which is closed; TooLargeError beyond ``limit``."""
    data = bytearray()
    with body:
        for chunk in body:
            data += chunk
            if len(data) > limit:
                raise TooLargeError(f"the response is larger than {limit} bytes", on=body.url)
    return bytes(data)


class _Pace:
    """Watches how fast bytes come."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._waited = 0.0
        self._received = 0

    def of(self, read: Callable[[], bytes]) -> bytes:
        begun = time.monotonic()
        chunk = read()
        self._waited += time.monotonic() - begun
        self._received += len(chunk)
        if self._waited >= SLOWEST_FOR:
            if self._received < SLOWEST * self._waited:
                raise TooSlowError(
                    f"it sends less than {SLOWEST} bytes a second", on=self._url, hint="try again later"
                )
            self._waited, self._received = 0.0, 0
        return chunk


def _reason(error: Exception) -> str:
    """What broke, without the URL that the library puts into its messages."""
    from urllib3.exceptions import IncompleteRead, ReadTimeoutError

    if isinstance(error, ReadTimeoutError):
        return "no byte came within the time-out"
    cause = error.args[-1] if error.args and isinstance(error.args[-1], Exception) else error
    if isinstance(cause, IncompleteRead):
        return f"{cause.expected} bytes are missing"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(cause).__name__
