"""A real HTTP server on the loopback interface that serves well, or misbehaves as told.

``files`` are served with HEAD, ranges and ETags. ``script`` has, for a path, behaviours that are used up
one a request; after the last one the path is served well again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests.support.listening import Listener, listen, running


@dataclass(frozen=True)
class Request:
    """What came in. ``connection`` numbers the TCP connections."""

    method: str
    path: str
    headers: dict[str, str]
    connection: int


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def setup(self) -> None:
        super().setup()
        with self.server.owner.lock:
            self.server.owner.connections += 1
            self.connection_number = self.server.owner.connections

    def do_GET(self) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = unquote(self.path)
        with owner.lock:
            owner.requests.append(Request(self.command, self.path, headers, self.connection_number))
            steps = owner.script.get(path.partition("?")[0], [])
            behaviour = steps.pop(0) if steps else None
        expected = owner.authorization
        if expected is not None and headers.get("authorization") != expected:
            self.reply(401, b"who are you?", {"WWW-Authenticate": "Basic realm=test"})
            return
        if behaviour is not None:
            behaviour(self)
            return
        self.serve()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def data(self) -> bytes | None:
        return self.server.owner.files.get(unquote(self.path).partition("?")[0])

    def serve(self, data: bytes | None = None, *, ranges: bool = True, etag: str | None = None) -> None:
        """As a good server does."""
        data = self.data() if data is None else data
        if data is None:
            self.reply(404, b"no such file")
            return
        etag = etag or f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        headers = {
            "ETag": etag,
            "Content-Type": self.server.owner.types.get(self.path, "application/octet-stream"),
        }
        start, end = self.wanted(len(data))
        if ranges and start is not None and self.headers.get("If-Range", etag) == etag:
            if start >= len(data):
                self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
            self.reply(206, data[start:end], headers)
            return
        self.reply(200, data, headers)

    def wanted(self, size: int) -> tuple[int | None, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            return None, size
        return int(match[1]), min(int(match[2]) + 1, size) if match[2] else size

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.head(status, len(body), headers)
        if self.command != "HEAD":
            self.send(body)

    def head(self, status: int, length: int | None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


Behaviour = Callable[[Handler], None]


def status(code: int, **headers: str) -> Behaviour:
    """Answer with a status and nothing else."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.reply(code, b"an error page", named)


def redirect(url: str, code: int = 302) -> Behaviour:
    """Send the client elsewhere."""
    return lambda handler: handler.reply(code, b"", {"Location": url})


def truncate(after: int) -> Behaviour:
    """Promise everything that was asked for, send ``after`` bytes of it, hang up."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        start, _ = handler.wanted(len(data))
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:16]}"'}
        if start is not None:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        rest = data[start or 0 :]
        handler.head(206 if start is not None else 200, len(rest), headers)
        handler.send(rest[:after])
        handler.close_connection = True

    return behave


def other(data: bytes, *, ranges: bool = True, etag: str | None = None) -> Behaviour:
    """Serve ``data`` in place of the file."""
    return lambda handler: handler.serve(data, ranges=ranges, etag=etag)


def no_ranges() -> Behaviour:
    """Serve the whole file, whatever part was asked for."""
    return lambda handler: handler.serve(ranges=False)


def shifted_range(by: int) -> Behaviour:
    """Answer a range with another one, and say so."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        start = (handler.wanted(len(data))[0] or 0) + by
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        handler.reply(206, data[start:], headers)

    return behave


def lying_range(by: int) -> Behaviour:
    """Claim the range that was asked for, and send bytes from elsewhere in the file."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        start = handler.wanted(len(data))[0] or 0
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        handler.reply(206, (data[start + by :] + data)[: len(data) - start], headers)

    return behave


def endless(code: int = 200, **headers: str) -> Behaviour:
    """Send without an end, and without a length, until the client hangs up."""

    def behave(handler: Handler) -> None:
        handler.head(code, None, {"Connection": "close", **headers})
        handler.close_connection = False  # set by that header; here it says that the client has gone
        while not handler.close_connection:
            handler.send(b"x" * 65536)
        handler.close_connection = True

    return behave


def unsized(after: int | None = None) -> Behaviour:
    """Send the file (or its first bytes) without a length, and hang up as if that were all."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        handler.head(200, None, {"Connection": "close"})
        handler.send(data[:after])
        handler.close_connection = True

    return behave


def hang_up() -> Behaviour:
    """Close the connection without an answer."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True

    return behave


def raw(head: str, body: bytes = b"") -> Behaviour:
    """Just these bytes, and the end of the connection."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(f"HTTP/1.1 {head}\r\n\r\n".encode("latin-1") + body)

    return behave


def drip_head(first: str, piece: str, limit: float = 30) -> Behaviour:
    """The beginning of a head, then a piece of it every 20 ms for as long as anybody listens."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(first.encode("latin-1"))
        until = time.monotonic() + limit
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                handler.wfile.write(piece.encode("latin-1"))
                time.sleep(0.02)

    return behave


def slow(after: int, released: threading.Event, limit: float = 30) -> Behaviour:
    """Send ``after`` bytes, then wait until ``released`` (or ``limit`` seconds) before the rest."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        handler.head(200, len(data))
        handler.send(data[:after])
        released.wait(limit)
        handler.send(data[after:])

    return behave


def late(seconds: float) -> Behaviour:
    """Serve well, after a while."""

    def behave(handler: Handler) -> None:
        time.sleep(seconds)
        handler.serve()

    return behave


@dataclass
class Server:
    """A running server; ``url`` has no slash at its end."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    script: dict[str, list[Behaviour]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    credentials: tuple[str, str] | None = None
    token: str | None = None
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def authorization(self) -> str | None:
        """The header that it wants to see; None where anybody may read."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.credentials is not None:
            return "Basic " + base64.b64encode(":".join(self.credentials).encode()).decode()
        return None

    def shown(self) -> set[str]:
        """Every credential that came in."""
        return {value for request in self.requests if (value := request.headers.get("authorization"))}

    def add(self, path: str, data: bytes, content_type: str | None = None) -> str:
        """Serve ``data``; its URL."""
        self.files[path] = data
        if content_type:
            self.types[path] = content_type
        return self.url + path

    def paths(self, method: str = "GET") -> list[str]:
        """What was asked for, in order."""
        return [request.path for request in self.requests if request.method == method]


@contextmanager
def serving(
    *, host: str = "127.0.0.1", certificate: Path | None = None, clients: Path | None = None
) -> Iterator[Server]:
    """A server until the end of the block; with TLS where there is a ``certificate`` (PEM with its key).

    With ``clients`` only those get in who have a certificate of that authority.
    """
    listener = listen(Handler, host)
    server = Server(f"http{'s' if certificate else ''}://{host}:{listener.server_port}")
    listener.owner = server
    with running(listener, certificate=certificate, clients=clients):
        yield server


def make_certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1 and 127.0.0.2 that is its own authority, with its key, in one PEM file."""
    directory.mkdir(parents=True, exist_ok=True)
    key, certificate, both = (directory / name for name in ("key.pem", "certificate.pem", "both.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=lockbuild test", "-addext", "subjectAltName=IP:127.0.0.1,IP:127.0.0.2",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both
