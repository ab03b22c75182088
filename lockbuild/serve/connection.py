"""One connection of a client: HTTP/1.1 (RFC 9112) by h11, with a deadline for everything that a client can delay.

h11 knows the protocol and refuses what is not sound; reading is done here, sending in `sending`.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

import h11

from lockbuild.errors import LockbuildError
from lockbuild.events import Note, Reporter
from lockbuild.serve.conditions import deliver
from lockbuild.serve.message import Answer, Request, text
from lockbuild.serve.sending import Limits, Sender, TooSlowError
from lockbuild.serve.target import BadTargetError, is_local, split, well_formed

if TYPE_CHECKING:
    from lockbuild.serve.message import Body

Handler = Callable[[Request], Answer]
_IN_MEMORY = 1 << 20
_LINGER = 1.0
_USER = re.compile(r"[^/@]*:[^/@]*@")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of a server have in common. ``local_only``: hosts that only this machine is called by."""

    handler: Handler
    limits: Limits
    report: Reporter
    local_only: bool
    address: str
    scheme: str


class Connection:
    """One client; `run` it in a thread of its own. Any thread may `close_if_waiting` or `cut` it."""

    def __init__(self, sock: socket.socket, peer: str, surroundings: Surroundings) -> None:
        self.waiting_since: float | None = time.monotonic()
        self._socket = sock
        self._peer = peer
        self._limits = surroundings.limits
        self._surroundings = surroundings
        self._state = threading.Lock()
        self._closing = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_size)
        self._out = Sender(sock, self._http, self._limits)

    def close_if_waiting(self) -> bool:
        """End it where no request is under way; whether that is so."""
        with self._state:
            if self.waiting_since is None:
                return False
            self._closing = True
        self.cut()
        return True

    def finish(self) -> None:
        """Take no further request."""
        self._closing = True
        self.close_if_waiting()

    def cut(self) -> None:
        """End it now."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        """Answer requests until either side has enough."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.settimeout(self._limits.head)
                self._socket.do_handshake()
            while self._one():
                pass
            self._linger()
        except (OSError, h11.LocalProtocolError):
            pass  # the client has gone, or is to go
        finally:
            self._socket.close()

    def _linger(self) -> None:
        """Let the client read the last answer before it learns that we did not read all it sent (RFC 9112, 9.6)."""
        if self._closing or self._http.their_state in (h11.DONE, h11.CLOSED, h11.MUST_CLOSE):
            return
        self._socket.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _LINGER
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            if not self._socket.recv(65536):
                return

    # One request and its answer

    def _one(self) -> bool:
        """Answer the next request; whether another may follow."""
        try:
            head = self._head()
            if head is None:
                return False
            with self._state:
                if self._closing:
                    return False
                self.waiting_since = None
            with ExitStack() as exits:
                self._respond(head, exits)
        except h11.RemoteProtocolError as error:
            self._refuse(error)
            return False
        if self._closing or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._out.reset()
        self.waiting_since = time.monotonic()
        return True

    def _respond(self, head: h11.Request, exits: ExitStack) -> None:
        begun, status = time.monotonic(), 0
        answer = self._answer(head, exits)
        exits.callback(answer.content.close)
        try:
            status = self._send(answer, head.method.decode("ascii"), _fields(head))
        finally:
            self._log(head, status, self._out.sent, time.monotonic() - begun)

    def _answer(self, head: h11.Request, exits: ExitStack) -> Answer:
        fields = _fields(head)
        method = head.method.decode("ascii", "replace")
        host = fields.get("host", "")
        if self._surroundings.local_only and host and not is_local(host):
            return text(f"{host!a} is not a name of this machine", 421)
        base = f"{self._surroundings.scheme}://{host if well_formed(host) else self._surroundings.address}"
        try:
            segments, query = split(head.target.decode("ascii", "replace"))
        except BadTargetError as error:
            return text(str(error), 400)
        if method not in ("GET", "HEAD", "POST"):
            return text("only reading is possible here", 405).having(Allow="GET, HEAD")
        body = self._body(head, exits)
        if isinstance(body, Answer):
            return body
        request = Request(method, segments, query, fields, base, body)
        try:
            return self._surroundings.handler(request)
        except LockbuildError as error:
            self._surroundings.report(Note(f"{request.path!a}: {error}", "warning"))
            return text("it cannot be served now; whoever runs this mirror is told why", 500)
        except OSError as error:
            self._surroundings.report(Note(f"{request.path!a}: {error.strerror or error}", "warning"))
            return text("it cannot be served now; whoever runs this mirror is told why", 500)

    def _send(self, answer: Answer, method: str, asked: Mapping[str, str]) -> int:
        delivery = deliver(answer, method, asked)
        headers = {"Server": "lockbuild", "X-Content-Type-Options": "nosniff", **delivery.headers}
        chunked = delivery.count is None and method != "HEAD"
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
        if self._closing or self._http.their_state is not h11.DONE:
            headers["Connection"] = "close"
        self._out.event(h11.Response(status_code=delivery.status, headers=list(headers.items()), reason=b""))
        if method != "HEAD" and delivery.count != 0:
            answer.content.send(self._out, delivery.start, delivery.count or 0)
        self._out.event(h11.EndOfMessage())
        return delivery.status

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Say what was wrong with the request, where that can still be said."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        answer = text("the request is not sound", error.error_status_hint)
        self._send(answer, "GET", {})
        self._surroundings.report(Note(f"{self._peer} sent no sound request: {str(error)[:200]!a}", "debug"))

    def _log(self, head: h11.Request, status: int, sent: int, seconds: float) -> None:
        # Without the query, where secrets could be.
        target = head.target.decode("ascii", "replace").partition("?")[0][:300]
        shown = _USER.sub("", target)
        method = head.method.decode("ascii", "replace")[:16]
        line = (
            f"{self._peer} {method} {shown!a} {status or 'broken off'} {sent} bytes {seconds * 1000:.0f} ms"
        )
        self._surroundings.report(Note(line, "debug"))

    # Receiving

    def _head(self) -> h11.Request | None:
        """The next request's header; None where the client has no more."""
        deadline = time.monotonic() + self._limits.idle
        begun = False
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if not begun and self._http.trailing_data[0]:
                    begun, deadline = True, time.monotonic() + self._limits.head
                self._receive(deadline)
                continue
            if isinstance(event, h11.Request):
                return event
            return None

    def _body(self, head: h11.Request, exits: ExitStack) -> Body | Answer | None:
        """The request's body, open as long as ``exits``; None where it has none, an answer where it is too much."""
        deadline = time.monotonic() + self._limits.body
        spool: Body | None = None
        size = 0
        if head.method != b"POST":
            event = self._http.next_event()
            return None if isinstance(event, h11.EndOfMessage) else text("no body is taken here", 413)
        if self._http.they_are_waiting_for_100_continue:
            self._out.event(h11.InformationalResponse(status_code=100, headers=[], reason=b""))
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._receive(deadline)
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > self._limits.body_size:
                    return text(f"no more than {self._limits.body_size} bytes are taken", 413)
                spool = spool or exits.enter_context(SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115  it is one
                spool.write(event.data)
            else:
                if spool is not None:
                    spool.seek(0)
                return spool

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TooSlowError
        self._socket.settimeout(left)
        # Small pieces while there is no body: h11 looks at the size of a header between two of them.
        self._http.receive_data(self._socket.recv(65536 if self.waiting_since is None else 4096))


def _fields(head: h11.Request) -> dict[str, str]:
    return {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
