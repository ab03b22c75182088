"""Takes connections, and gives each a thread: a bounded number of them, and never for ever.

Of what there is on the shelf (looked at: waitress, cheroot, uvicorn with starlette, aiohttp, tornado) nothing has
sendfile, TLS, ranges by ETag and a deadline for a request's header at once; so this is sockets and h11, which is the
protocol alone. Where all places are taken, whoever has been silent for the longest makes room.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path

from lockbuild.errors import UsageError
from lockbuild.events import Note, Reporter
from lockbuild.serve.connection import Connection, Handler, Surroundings
from lockbuild.serve.sending import Limits

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
_FRESH = 1.0
"""Seconds in which a new connection need not make room."""


class Server:
    """Listens at ``host``, ``port`` (0: any that is free) from the start; answers while `run` does.

    UsageError where it cannot listen there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Handler,
        *,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        report: Reporter,
    ) -> None:
        self._listener = _listen(host, port)
        self._tls = tls
        self._report = report
        self._stopping = False
        self.limits = limits or Limits()
        address = self._listener.getsockname()
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        scheme = "https" if tls is not None else "http"
        self.address = f"{name}:{address[1]}"
        self.url = f"{scheme}://{self.address}"
        self.is_local = _is_loopback(address[0])
        self._surroundings = Surroundings(handler, self.limits, report, self.is_local, self.address, scheme)
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}

    def run(self) -> None:
        """Answer until `stop`, or until an exception (an interrupt) ends it; then those who get an answer have a little
        time for it."""
        try:
            while True:
                try:
                    client, peer = self._listener.accept()
                except OSError as error:
                    if self._stopping:
                        return
                    # No more descriptors, or the client has gone meanwhile.
                    self._report(Note(f"a connection could not be taken: {error.strerror}", "debug"))
                    time.sleep(0.05)
                    continue
                self._take(client, f"{peer[0]}")
        finally:
            self.stop()

    def stop(self) -> None:
        """Take no more connections, and end those that there are. From any thread."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in it
        self._listener.close()
        with self._lock:
            threads = dict(self._connections)
        for connection in threads:
            connection.finish()
        deadline = time.monotonic() + self.limits.grace
        for connection, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                connection.cut()
        for thread in threads.values():
            thread.join(1)

    def _take(self, client: socket.socket, peer: str) -> None:
        with self._lock:
            full = len(self._connections) >= self.limits.connections
        if full and not self._make_room():
            client.setblocking(False)
            try:
                if self._tls is None:
                    client.send(_BUSY)
            except OSError:
                pass
            client.close()
            return
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        except OSError:
            client.close()
            return
        connection = Connection(client, peer, self._surroundings)
        thread = threading.Thread(target=self._serve, args=(connection,), name=f"serve {peer}", daemon=True)
        with self._lock:
            self._connections[connection] = thread
        try:
            thread.start()
        except RuntimeError:  # the system gives no more threads
            with self._lock:
                del self._connections[connection]
            client.close()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.run()
        except Exception as error:
            import traceback

            lines = "".join(traceback.format_exception(error))
            self._report(Note(f"this is a fault in lockbuild; please report it:\n{lines}", "warning"))
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _make_room(self) -> bool:
        """End the connection that has waited for the longest for its client to ask for something."""
        now = time.monotonic()
        with self._lock:
            silent = [
                (since, connection)
                for connection in self._connections
                if (since := connection.waiting_since) is not None and now - since > _FRESH
            ]
        return any(
            connection.close_if_waiting() for _, connection in sorted(silent, key=lambda item: item[0])
        )


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS with a certificate (and those between it and its authority) in a PEM file; UsageError for any other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # No one is there to be asked for a passphrase.
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        raise UsageError(
            f"it is not a certificate with its key: {error.reason or error}",
            on=str(certificate) if key is None else f"{certificate}, {key}",
            hint="give PEM files: the certificate with its chain (--tls-cert), and its key without a passphrase "
            "(--tls-key)",
        ) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", on=f"{key or certificate}") from None
    return context


def _no_passphrase() -> str:
    raise UsageError("the key has a passphrase", on="--tls-key", hint="give a key without one")


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"it is no address of this machine: {error.strerror}", on=f"--bind {host}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen at port {port}: {error.strerror}",
            on=f"--bind {host}",
            hint="choose another address or port with --bind ADDR:PORT (port 0 takes any that is free)",
        ) from None
    return listener


def _is_loopback(address: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
