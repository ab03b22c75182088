"""What passes between the server and those who answer: requests, answers, and the content of an answer.

Semantics: RFC 9110.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Protocol

from lockbuild.model.digest import Digest

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Body = SpooledTemporaryFile[bytes]

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client wants. ``segments`` are the path's, decoded: none is empty (but the last, after a slash), ``.`` or
    ``..``, none has a slash, a backslash or a control character. ``headers`` go by lower-case names.

    ``base`` is how the client calls this server (``http://host:port``), as far as that can be believed.
    """

    method: str
    segments: tuple[str, ...]
    query: str
    headers: Mapping[str, str]
    base: str
    body: Body | None = None

    @property
    def path(self) -> str:
        """The path, decoded."""
        return "/" + "/".join(self.segments)


class Outlet(Protocol):
    """Where content goes. Raises OSError where the client has gone, or is too slow."""

    def write(self, data: Buffer) -> None:
        """Send ``data``."""

    def write_file(self, descriptor: int, offset: int, count: int) -> None:
        """Send ``count`` bytes of an open file; OSError where it does not have them."""


class Content(Protocol):
    """The bytes of an answer. ``size`` is None where it is known only at the end; then it has no parts."""

    @property
    def size(self) -> int | None:
        """Bytes."""

    def send(self, out: Outlet, start: int, count: int) -> None:
        """Send ``count`` bytes from ``start`` on (all of it, where the size is not known)."""

    def close(self) -> None:
        """Let go of what it holds, sent or not."""


@dataclass(frozen=True, slots=True)
class Data:
    """Content that is in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    def send(self, out: Outlet, start: int, count: int) -> None:
        """Send a part."""
        out.write(memoryview(self.data)[start : start + count])

    def close(self) -> None:
        """Nothing is held."""


class File:
    """Content that is an open file, of which it becomes the owner."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size: int = size
        self._open = True

    def send(self, out: Outlet, start: int, count: int) -> None:
        """Send a part."""
        out.write_file(self.descriptor, start, count)

    def close(self) -> None:
        """Close the file."""
        if self._open:
            self._open = False
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Where it has an ``etag`` (an opaque tag, without quotes), parts of it can be asked for, and whether
    it is still the same."""

    content: Content = field(default_factory=lambda: Data(b""))
    media_type: str = BYTES
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None

    def having(self, **headers: str) -> Answer:
        """The same with further headers (``_`` stands for ``-``)."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **more})


FOREVER = "public, max-age=31536000, immutable"
"""Cache-Control of what is named by its digest."""


def text(message: str, status: int = 200) -> Answer:
    """A line for a person."""
    return Answer(Data(f"{message}\n".encode()), TEXT, status)


def made(data: bytes, media_type: str) -> Answer:
    """A document that is made here; it may be another one the next time."""
    return Answer(Data(data), media_type, etag=Digest.of(data).hex).having(Cache_Control="no-cache")


def as_json(value: Any, media_type: str = "application/json") -> Answer:
    """The same, as JSON."""
    return made(json.dumps(value, sort_keys=True, ensure_ascii=False).encode(), media_type)


def absent(what: str = "there is nothing here that a known lock names") -> Answer:
    """404."""
    return text(what, 404)
