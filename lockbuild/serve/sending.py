"""Sends what h11 frames, at the pace of a client that may be slow but not for ever.

A file goes from the disk to the network without passing through Python where nothing encrypts (sendfile(2)).
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take. Times in seconds, sizes in bytes.

    ``idle``: until a request begins. ``head``: until its header is there. ``body``: until its body is. ``stall``:
    without taking anything of an answer. ``slowest``: bytes a second, on average, of an answer that has been waited
    for longer than ``stall``. ``grace``: for answers under way when the server stops.
    """

    connections: int = 128
    idle: float = 60
    head: float = 15
    head_size: int = 16 << 10
    body: float = 60
    body_size: int = 16 << 20
    stall: float = 30
    slowest: int = 1024
    grace: float = 5


class TooSlowError(OSError):
    """The client takes too long."""


class Sender:
    """The way out of one connection; an `Outlet` for content. ``sent`` counts bytes.

    Whatever is sent raises OSError where the client has gone or is too slow.
    """

    def __init__(self, sock: socket.socket, http: h11.Connection, limits: Limits) -> None:
        self.sent = 0
        self._socket = sock
        self._http = http
        self._limits = limits
        self._waited = 0.0

    def reset(self) -> None:
        """Begin to count anew."""
        self.sent, self._waited = 0, 0.0

    def write(self, data: Buffer) -> None:
        """Send a part of the content."""
        view = memoryview(data)
        if view.nbytes:
            for part in self._framed(view):
                self._raw(part)

    def write_file(self, descriptor: int, offset: int, count: int) -> None:
        """Send a part of an open file, by sendfile(2) where nothing encrypts."""
        for part in self._framed(_Extent(count)):
            if isinstance(part, _Extent):
                self._extent(descriptor, offset, count)
            else:
                self._raw(part)

    def _framed(self, data: Any) -> list[Any]:
        """What to send for a piece of content; h11 takes whatever has a length, and gives it back as it is."""
        return self._http.send_with_data_passthrough(h11.Data(data=data)) or []

    def event(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self._raw(data)

    def _raw(self, data: Buffer) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            begun = time.monotonic()
            self._socket.settimeout(self._limits.stall)
            count = self._socket.send(rest[:_CHUNK])
            rest = rest[count:]
            self._pace(count, begun)

    def _extent(self, descriptor: int, offset: int, count: int) -> None:
        encrypted = isinstance(self._socket, ssl.SSLSocket)
        self._socket.settimeout(self._limits.stall)
        writable = select.poll()
        writable.register(self._socket, select.POLLOUT)
        while count:
            if encrypted:
                data = os.pread(descriptor, min(count, _CHUNK), offset)
                sent = len(data)
                self._raw(data)
            else:
                begun = time.monotonic()
                if not writable.poll(self._limits.stall * 1000):
                    raise TooSlowError
                try:
                    sent = os.sendfile(self._socket.fileno(), descriptor, offset, min(count, 4 * _CHUNK))
                except BlockingIOError:
                    continue
                self._pace(sent, begun)
            if not sent:
                raise OSError("the file has become shorter")
            offset, count = offset + sent, count - sent

    def _pace(self, sent: int, begun: float) -> None:
        self.sent += sent
        self._waited += time.monotonic() - begun
        if self._waited > self._limits.stall and self.sent < self._limits.slowest * self._waited:
            raise TooSlowError


@dataclass(frozen=True, slots=True)
class _Extent:
    """Stands for bytes of a file among those that h11 counts."""

    count: int

    def __len__(self) -> int:
        return self.count
