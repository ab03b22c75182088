"""A forwarding HTTP proxy on the loopback interface: CONNECT and plain requests, with a password, over TLS or not."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.listening import Listener, listen, running


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def admitted(self) -> bool:
        proxy = self.server.owner
        proxy.headers.append({name.lower(): value for name, value in self.headers.items()})
        proxy.targets.append(f"{self.command} {self.path}")
        if proxy.credentials is None:
            return True
        wanted = "Basic " + base64.b64encode(":".join(proxy.credentials).encode()).decode()
        if self.headers.get("Proxy-Authorization") == wanted:
            return True
        self.send_response(407)
        self.send_header("Proxy-Authenticate", "Basic realm=proxy")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def do_CONNECT(self) -> None:
        if not self.admitted():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as far:
            self.send_response(200)
            self.end_headers()
            self._relay(far)
        self.close_connection = True

    def do_GET(self) -> None:
        if not self.admitted():
            return
        parts = urlsplit(self.path)
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        kept = {name: value for name, value in self.headers.items() if not name.lower().startswith("proxy-")}
        connection.request("GET", parts.path, headers=kept)
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(data)))
        if answer.getheader("Location"):
            self.send_header("Location", answer.getheader("Location") or "")
        self.end_headers()
        self.wfile.write(data)
        connection.close()

    def _relay(self, far: socket.socket) -> None:
        near = self.connection
        while True:
            pending = isinstance(near, ssl.SSLSocket) and near.pending() > 0
            ready = [near] if pending else select.select([near, far], [], [], 10)[0]
            if not ready:
                return
            for one, other in ((near, far), (far, near)):
                if one in ready:
                    try:
                        data = one.recv(65536)
                        if not data:
                            return
                        other.sendall(data)
                    except OSError:
                        return

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@dataclass
class Proxy:
    """A running proxy: what it was asked for (``CONNECT host:port``), and the headers that came with that."""

    url: str = ""
    credentials: tuple[str, str] | None = None
    targets: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def proxying(
    *,
    certificate: Path | None = None,
    credentials: tuple[str, str] | None = None,
    inside: AbstractContextManager[None] | None = None,
) -> Iterator[Proxy]:
    """A proxy until the end of the block; over TLS where there is a ``certificate`` (PEM with its key).

    With ``inside`` it listens there (`tests.support.sites.Site.inside`), and connects from here.
    """
    with inside or nullcontext():
        listener = listen(_Handler)
    scheme = "https" if certificate else "http"
    proxy = Proxy(f"{scheme}://127.0.0.1:{listener.server_port}", credentials)
    listener.owner = proxy
    with running(listener, certificate=certificate):
        yield proxy
