"""The server with clients that are slow, many, or hostile. Its limits are small here."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.events import Event, Note
from lockbuild.serve.message import Answer, Data, File, Request, text
from lockbuild.serve.sending import Limits
from lockbuild.serve.server import Server

LIMITS = Limits(connections=4, idle=5, head=0.5, body=0.5, body_size=1000, stall=0.5, grace=0.5)
BIG = 64 << 20


class Bench:
    """A running server, what it reported, and what was asked of it."""

    def __init__(self, directory: Path) -> None:
        self.events: list[Event] = []
        self.requests: list[Request] = []
        self.blocking = threading.Event()
        self.big = directory / "big"
        with self.big.open("wb") as file:
            file.truncate(BIG)
        self.server = Server("127.0.0.1", 0, self.handle, limits=LIMITS, report=self.events.append)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def handle(self, request: Request) -> Answer:
        self.requests.append(request)
        match request.segments:
            case ("big",):
                return Answer(File(os.open(self.big, os.O_RDONLY), BIG), etag="big")
            case ("wait",):
                self.blocking.wait(10)
                return text("waited")
            case ("body",):
                assert request.body is not None
                return Answer(Data(request.body.read()))
            case ("bug",):
                raise ZeroDivisionError
        return Answer(Data(b"here"), etag="here")

    def connect(self, data: bytes = b"") -> socket.socket:
        port = int(self.server.address.rpartition(":")[2])
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
        client.sendall(data)
        return client

    def ask(self, data: bytes) -> bytes:
        """Everything that comes back until the server closes."""
        with self.connect(data) as client:
            return everything(client)

    def reported(self) -> str:
        return "\n".join(event.message for event in self.events if isinstance(event, Note))


def everything(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        yield made
    finally:
        made.blocking.set()
        made.server.stop()
        made.thread.join(10)


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_several_requests_of_one_connection(bench: Bench) -> None:
    answers = bench.ask(GET + GET + LAST)
    assert answers.count(b"HTTP/1.1 200") == 3
    assert answers.count(b"here") == 6  # the tag and the content


def test_a_client_that_never_says_what_it_wants(bench: Bench) -> None:
    begun = time.monotonic()
    with bench.connect(b"GET / HTTP/1.1\r\n") as client:
        with contextlib.suppress(OSError):
            for _ in range(40):
                client.sendall(b"X: y\r\n")
                time.sleep(0.05)
        everything(client)
    assert time.monotonic() - begun < 4


def test_silent_clients_make_room_for_others(bench: Bench) -> None:
    silent = [bench.connect() for _ in range(LIMITS.connections)]
    try:
        time.sleep(1.1)
        assert bench.ask(LAST).startswith(b"HTTP/1.1 200")
        assert everything(silent[0]) == b"", "the one that was silent for the longest"
    finally:
        for client in silent:
            client.close()


def test_no_more_at_once_than_there_are_places(bench: Bench) -> None:
    busy = [
        bench.connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(LIMITS.connections)
    ]
    try:
        while len(bench.requests) < LIMITS.connections:
            time.sleep(0.01)
        assert bench.ask(b"").startswith(b"HTTP/1.1 503")
        bench.blocking.set()
        assert all(client.recv(65536).startswith(b"HTTP/1.1 200") for client in busy)
    finally:
        for client in busy:
            client.close()


def test_a_client_that_takes_nothing(bench: Bench) -> None:
    with bench.connect(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
        client.recv(100)
        time.sleep(1.5)
        assert len(everything(client)) < BIG
    assert "GET '/big' broken off" in bench.reported()


def test_headers_without_an_end(bench: Bench) -> None:
    answer = bench.ask(b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000)
    assert answer.startswith(b"HTTP/1.1 431")
    assert bench.requests == []


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /a/../b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /a%2f..%2fb HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421),
        (b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, 413),
        (b"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ],
)
def test_what_is_refused(bench: Bench, data: bytes, status: int) -> None:
    assert bench.ask(data).startswith(b"HTTP/1.1 %d" % status)
    assert bench.requests == []


def test_bodies(bench: Bench) -> None:
    chunked = (
        b"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    assert bench.ask(chunked + b"3\r\nabc\r\n0\r\n\r\n").endswith(b"abc")
    slow = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"
    begun = time.monotonic()
    assert bench.ask(slow) == b""
    assert time.monotonic() - begun < 3


def test_a_fault_ends_one_connection_only(bench: Bench) -> None:
    assert bench.ask(b"GET /bug HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    limit = time.monotonic() + 5
    while "ZeroDivisionError" not in bench.reported():
        assert time.monotonic() < limit
    assert bench.ask(LAST).startswith(b"HTTP/1.1 200")


def test_secrets_stay_out_of_the_log(bench: Bench) -> None:
    bench.ask(
        b"GET /url/https/ann:s3cret@host/x?token=s3cret HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Basic s3cret\r\nConnection: close\r\n\r\n"
    )
    assert "GET '/url/https/host/x' 200" in bench.reported()
    assert "s3cret" not in bench.reported()


def test_stopping_lets_answers_end(bench: Bench) -> None:
    with bench.connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n") as client, bench.connect() as idle:
        while not bench.requests:
            time.sleep(0.01)
        threading.Timer(0.2, bench.blocking.set).start()
        bench.server.stop()
        assert b"waited" in everything(client)
        assert everything(idle) == b""
