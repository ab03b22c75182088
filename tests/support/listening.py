"""The life of a loopback server in a test: TLS where there is a certificate, a thread, and the end of both."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Listener(ThreadingHTTPServer):
    """A server whose handlers find what they serve in ``owner``."""

    daemon_threads = True
    request_queue_size = 64
    owner: Any

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up or refuses a certificate is part of the tests


def listen(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Listener:
    """A listener at a free port; it answers once it is `running`."""
    return Listener((host, 0), handler)


@contextmanager
def running(
    listener: Listener, *, certificate: Path | None = None, clients: Path | None = None
) -> Iterator[None]:
    """Answer until the end of the block; over TLS where there is a ``certificate`` (PEM with its key).

    With ``clients`` only those get in who have a certificate of that authority.
    """
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
        listener.socket = context.wrap_socket(
            listener.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
