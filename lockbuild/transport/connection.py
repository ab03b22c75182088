"""Connections whose answers begin in time.

A time-out bounds the wait for the next byte. What bounds the head of an answer (RFC 9112, section 2) is a deadline: one
byte of a header a second, or interim answers (``100 Continue``) without end, pass every time-out.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    from typing_extensions import Buffer

LONGEST_HEAD = 60.0
"""Seconds that a head may take, beyond the time-out for its first byte."""


class _Bounded(io.RawIOBase):
    """What comes from a socket, until a deadline."""

    def __init__(self, source: io.RawIOBase, deadline: float) -> None:
        self._source = source
        self.deadline: float | None = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError("the head of the answer comes too slowly")
        return self._source.readinto(buffer)

    def close(self) -> None:
        self._source.close()
        super().close()


class _Answer(HTTPResponse):
    """One whose head must have come before the deadline; its body may take longer."""

    def __init__(self, sock: socket.socket, *arguments: Any, **keywords: Any) -> None:
        super().__init__(sock, *arguments, **keywords)
        self._source = _Bounded(self.fp.detach(), time.monotonic() + (sock.gettimeout() or 0) + LONGEST_HEAD)
        self.fp = io.BufferedReader(self._source)

    def begin(self) -> None:
        super().begin()
        self._source.deadline = None


class _Connection(HTTPConnection):
    response_class = _Answer


class _SecureConnection(HTTPSConnection):
    response_class = _Answer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS: dict[str, Callable[..., HTTPConnectionPool]] = {"http": _Pool, "https": _SecurePool}
"""The pools of such connections, by scheme: ``PoolManager.pool_classes_by_scheme``."""
