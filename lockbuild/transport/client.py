"""Read URLs, each from its one place: http, https and file behind one interface, with time-outs and retries.

Of its own accord it sends only GET and HEAD, so that every request can be repeated. Ranges follow RFC 9110, section 14.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError
from lockbuild.events import Note, Reporter, silent
from lockbuild.reading import open_regular
from lockbuild.transport.answers import WORTH_RETRYING, may_pass, refusal, retry_after, unreachable
from lockbuild.transport.body import Body, FileBody, HttpBody, whole
from lockbuild.transport.failures import (
    ABSENT,
    ABSENT_HINT,
    BrokenTransferError,
    MalformedError,
    NotFoundError,
    OfflineError,
    RefusedError,
    TooLargeError,
)
from lockbuild.transport.numbers import content_length, content_range

if TYPE_CHECKING:
    import requests
    from typing_extensions import Buffer

_FELT = 1.0
"""Seconds of a pause from which on people wonder whether anything happens."""
_LONGEST_WAIT = 60.0
"""Seconds that a server may make us wait by Retry-After; for longer, the user decides."""


@dataclass(frozen=True, slots=True)
class Document:
    """A whole response: ``url`` is where it came from in the end, to resolve relative links against."""

    url: str = field(repr=False)
    content_type: str
    body: bytes


class Client:
    """Reads a URL from where it says. Thread-safe; mirrors are no matter of it (see `Http`).

    ``offline`` lets only file:// URLs through. ``first_wait`` is the pause before the first retry in
    seconds; it doubles with each.
    """

    def __init__(
        self, config: Config, *, offline: bool = False, report: Reporter = silent, first_wait: float = 0.5
    ) -> None:
        self.offline = offline
        self._config = config
        self._network = config.network
        self._credentials = Credentials(config, os.environ)
        self._report = report
        self._first_wait = first_wait
        self._session: requests.Session | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._waited_for: set[tuple[str, ...]] = set()

    def close(self) -> None:
        """Close idle connections and end waits; the object is of no use afterwards."""
        self._closed.set()
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def get(self, url: str, *, limit: int) -> bytes:
        """The whole resource as stored; TooLargeError beyond ``limit`` bytes."""
        return self._whole(url, {}, limit, decode=False).body

    def read(self, url: str, *, limit: int, accept: str) -> Document:
        """The whole resource in one of the media types ``accept``, any Content-Encoding undone.

        TooLargeError beyond ``limit`` bytes, after decoding.
        """
        return self._whole(url, {"Accept": accept, "Accept-Encoding": "gzip"}, limit, decode=True)

    def stream(self, url: str, *, offset: int = 0, validator: str | None = None) -> Body:
        """Open the resource from ``offset`` on, if the server can and it still has ``validator``.

        Look at ``Body.offset`` for where it really starts: at ``offset`` or at 0, nowhere else.
        Retries until there is a response; BrokenTransferError while iterating is for the caller to go on from.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        if offset and validator:
            headers["If-Range"] = validator
        body = self._open(url, headers, decode=False)
        if body.offset in (0, offset):
            return body
        # A proxy or server that gives another part than was asked for: take everything instead.
        body.close()
        return self._open(url, {}, decode=False)

    def size(self, url: str) -> int | None:
        """Size of the resource in bytes, None where the server does not say. Sends HEAD."""
        local = self._local(url)
        if local is not None:
            with _local_failures(url):
                return local.stat().st_size
        response = self.send("HEAD", url, {"Accept-Encoding": "identity"})
        response.close()
        return content_length(response.headers)

    def slice(self, url: str, offset: int, length: int) -> bytes | None:
        """``length`` bytes from ``offset`` on; None where the server cannot give a part."""
        local = self._local(url)
        if local is not None:
            with _local_failures(url), open_regular(local) as file:
                file.seek(offset)
                return file.read(length)
        for attempt in range(self._network.retries + 1):
            headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
            try:
                with self._open(url, headers, decode=False, partial=True) as body:
                    if not body.resumed or body.offset != offset:
                        return None
                    data = b"".join(body)
                    return data if len(data) == length else None
            except BrokenTransferError as error:
                self.wait_or_raise(attempt, error)
        return None

    def _whole(self, url: str, headers: dict[str, str], limit: int, *, decode: bool) -> Document:
        for attempt in range(self._network.retries + 1):
            try:
                with self._open(url, headers, decode=decode) as body:
                    if body.total is not None and not decode and body.total > limit:
                        raise _too_large(url, limit)
                    return Document(body.location, body.content_type, whole(body, limit))
            except BrokenTransferError as error:
                self.wait_or_raise(attempt, error)
        raise AssertionError("the last attempt returns or raises")

    def _open(self, url: str, headers: dict[str, str], *, decode: bool, partial: bool = False) -> Body:
        local = self._local(url)
        if local is not None:
            wanted = re.match(r"bytes=(\d+)-", headers.get("Range", ""))
            with _local_failures(url):
                return FileBody(url, local, int(wanted[1]) if wanted else 0)
        response = self.send("GET", url, {"Accept-Encoding": "identity", **headers})
        if response.status_code == 416:
            # What we hold is as long as the resource or longer: begin again.
            response.close()
            rest = {name: value for name, value in headers.items() if name not in ("Range", "If-Range")}
            response = self.send("GET", url, {"Accept-Encoding": "identity", **rest})
        if response.status_code != 206:
            total = None if decode else content_length(response.headers)
            return HttpBody(response, offset=0, total=total, decode=decode)
        place = content_range(response.headers)
        if place is None:
            response.close()
            raise MalformedError(
                "the server sends a part and does not say which (Content-Range)", on=redact(url)
            )
        first, last, total = place
        if partial:
            total = last + 1
        return HttpBody(response, offset=first, total=total, decode=decode)

    def _local(self, url: str) -> Path | None:
        """The path of a file:// URL; None for http and https. OfflineError where those must not be used."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise RefusedError("malformed URL", on=redact(url)) from None
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise RefusedError("a file:// URL must not name a host", on=redact(url))
            return Path(unquote(parts.path))
        if parts.scheme not in ("http", "https"):
            raise RefusedError(f"URLs with the scheme {parts.scheme!r} are not supported", on=redact(url))
        if self.offline:
            raise OfflineError(ABSENT, on=redact(url), hint=ABSENT_HINT)
        return None

    def send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        *,
        expected: Container[int] = (416,),
        authorise: Callable[[requests.PreparedRequest], requests.PreparedRequest] | None = None,
        body: Callable[[], Iterable[Buffer] | bytes] | None = None,
        attempts: int | None = None,
        stay: bool = False,
    ) -> requests.Response:
        """An open response with a status that means success or is ``expected``, after retries where they make sense.

        ``authorise``, ``body`` and ``stay`` as `session.follow` takes them; ``attempts`` at most, by default those
        that the user configured.
        """
        import requests
        from urllib3.exceptions import HTTPError

        from lockbuild.transport.session import follow

        attempt = 0
        while True:
            wait: float | None = None
            try:
                response = follow(
                    self.session(),
                    method,
                    url,
                    headers=headers,
                    timeout=self._network.timeout,
                    authorise=authorise,
                    body=body,
                    stay=stay,
                )
                if response.status_code < 300 or response.status_code in expected:
                    _check(response, headers)
                    return response
                response.close()
                failure = refusal(response, url, self._credentials)
                if response.status_code not in WORTH_RETRYING:
                    raise failure
                wait = retry_after(response.headers.get("Retry-After", ""))
                if wait is not None and wait > _LONGEST_WAIT:
                    failure.hint = f"the server asks to come back in {wait:.0f} seconds"
                    raise failure
            except (requests.RequestException, HTTPError, OSError) as error:
                # Not all of the lower library's come through requests as its own: bad names of hosts do not.
                failure = unreachable(url, error, self._config.setting_of(url))
                if not may_pass(error):
                    raise failure from None
            attempt += 1
            if attempt == attempts:
                raise failure
            self.wait_or_raise(attempt - 1, failure, wait)

    def wait_or_raise(self, attempt: int, failure: FetchError, wait: float | None = None) -> None:
        """Pause before another attempt; raise ``failure`` where there were enough, or nobody waits any more."""
        if attempt >= self._network.retries or self._closed.is_set():
            raise failure
        pause = self._first_wait * 2**attempt if wait is None else wait
        self._report(Note(f"{failure.on}: {failure.what}; trying again in {pause:.1f} s", "debug"))
        if pause >= _FELT and self._is_new(failure):
            more = self._network.retries - attempt
            times = f"up to {more} times more" if more > 1 else "once more"
            self._report(Note(f"{failure.on}: {failure.what}; trying again {times}"))
        if self._closed.wait(pause):
            raise failure

    def _is_new(self, failure: FetchError) -> bool:
        """Whether nobody was told yet that its host is waited for."""
        host = urlsplit(failure.on or "")[:2]
        with self._lock:
            known = host in self._waited_for
            self._waited_for.add(host)
        return not known

    def session(self) -> requests.Session:
        """The connections, for whoever speaks another protocol over HTTP with the same trust and proxies."""
        with self._lock:
            if self._session is None:
                from lockbuild import __version__
                from lockbuild.transport.session import new_session
                from lockbuild.transport.trust import Trust

                self._session = new_session(
                    self._credentials,
                    Trust(self._config, self._credentials, os.environ),
                    connections=self._network.connections,
                    user_agent=f"lockbuild/{__version__}",
                )
            return self._session


def _check(response: requests.Response, headers: dict[str, str]) -> None:
    """MalformedError, and the response is closed, where it says of its length or place what cannot be."""
    try:
        content_length(response.headers)
        if response.status_code == 206 and "Range" not in headers:
            raise MalformedError("the server sends a part, and was asked for the whole")
    except MalformedError as error:
        response.close()
        error.on = redact(response.url or "")
        raise


@contextmanager
def _local_failures(url: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise NotFoundError("there is no such file", on=url) from None
    except OSError as error:
        raise RefusedError(f"cannot be read: {error.strerror}", on=url) from None


def _too_large(url: str, limit: int) -> TooLargeError:
    return TooLargeError(f"the response is larger than {limit} bytes", on=redact(url))
