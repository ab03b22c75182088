"""One request to a registry and its answer: authorised as the registry asks, its errors as ours.

The registry's own error (distribution specification, "Error Codes") is told, shortened, without control
characters and with every URL redacted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lockbuild.config.urls import origin, redact, redact_text
from lockbuild.transport.body import Body, HttpBody, whole
from lockbuild.transport.client import Client
from lockbuild.transport.failures import (
    BrokenTransferError,
    MalformedError,
    NotFoundError,
    RefusedError,
    TransferError,
)
from lockbuild.transport.numbers import content_length, content_range
from lockbuild.transport.registry.auth import Authority, authorising, login_hint

if TYPE_CHECKING:
    import requests
    from typing_extensions import Buffer

_EXPECTED = frozenset(range(400, 500)) - {408, 425, 429}
_LARGEST_ERROR = 64 << 10


class StatusError(RefusedError):
    """The registry refuses with ``status``."""

    def __init__(self, what: str, status: int, *, on: str, hint: str | None = None) -> None:
        super().__init__(what, on=on, hint=hint)
        self.status_code = status


class Exchange:
    """Thread-safe."""

    def __init__(self, client: Client, authority: Authority) -> None:
        self.authority = authority
        self._client = client

    def send(
        self,
        method: str,
        url: str,
        scopes: tuple[str, ...],
        headers: dict[str, str],
        *,
        body: Callable[[], Iterable[Buffer] | bytes] | None = None,
        at: str | None = None,
        attempts: int | None = None,
    ) -> requests.Response:
        """An open response whose status means success.

        ``at`` is the registry's own URL, where ``url`` is a place that it sent us to: only what is of the same
        origin is shown who asks. NotFoundError for 404, else StatusError.
        """
        known = at is None or origin(urlsplit(at)) == origin(urlsplit(url))
        shown = self.authority.header(url, scopes) if known else None
        response = self._once(method, url, headers, shown, body, attempts)
        # What another place asks for, which a redirect led to, is no challenge of the registry: it would choose who is
        # shown the registry's password.
        own = origin(urlsplit(response.url or url)) == origin(urlsplit(url))
        if response.status_code == 401 and known and own:
            asked = response.headers.get("WWW-Authenticate", "")
            try:
                header = self.authority.answer(url, scopes, asked, shown)
            except BaseException:
                response.close()
                raise
            if header is not None:
                response.close()
                response = self._once(method, url, headers, header, body, attempts)
        if response.status_code < 400:
            return response
        raise self._failure(response, url)

    def ask(self, url: str) -> None:
        """See whether anybody answers, whatever that is; UnreachableError otherwise."""
        self._once("HEAD", url, {}, None, None, 1).close()

    def get(
        self, url: str, scopes: tuple[str, ...], headers: dict[str, str], *, limit: int
    ) -> tuple[bytes, Any]:
        """The whole body and the headers; TooLargeError beyond ``limit`` bytes."""
        attempt = 0
        while True:
            try:
                response = self.send("GET", url, scopes, {"Accept-Encoding": "identity", **headers})
                return whole(_body(response, 0), limit), response.headers
            except BrokenTransferError as error:
                self._client.wait_or_raise(attempt, error)
                attempt += 1

    def stream(self, url: str, scopes: tuple[str, ...], offset: int) -> Body:
        """The body from ``offset`` on, or from 0 where the server gives no parts."""
        headers = {"Accept-Encoding": "identity"}
        if offset:
            try:
                response = self.send("GET", url, scopes, {**headers, "Range": f"bytes={offset}-"})
            except StatusError as error:
                if error.status_code != 416:
                    raise
            else:
                return _body(response, offset)
        return _body(self.send("GET", url, scopes, headers), 0)

    def _once(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        shown: str | None,
        body: Callable[[], Iterable[Buffer] | bytes] | None,
        attempts: int | None,
    ) -> requests.Response:
        return self._client.send(
            method,
            url,
            headers,
            expected=_EXPECTED,
            authorise=authorising(url, shown),
            body=body,
            attempts=attempts,
        )

    def _failure(self, response: requests.Response, url: str) -> TransferError:
        status = response.status_code
        told = _told(response)
        said = f"the registry answers {status} {response.reason or ''}".rstrip()
        said = f"{said}: {told}" if told else said
        on = redact(url)
        if status in (404, 410):
            return NotFoundError(said, on=on)
        place = response.url or url
        elsewhere = origin(urlsplit(place)) != origin(urlsplit(url))
        if elsewhere:
            said = f"redirected to {redact(place)}, where {said}"
        hint = login_hint(known=self.authority.knows(url)) if status in (401, 403) and not elsewhere else None
        if status == 407:
            hint = "give the user name and password of the proxy in https_proxy and http_proxy"
        return StatusError(said, status, on=on, hint=hint)


def _body(response: requests.Response, offset: int) -> HttpBody:
    if response.status_code != 206:
        return HttpBody(response, offset=0, total=content_length(response.headers), decode=False)
    place = content_range(response.headers)
    if place is None or place[0] != offset or place[2] is None:
        response.close()
        raise MalformedError(
            "the registry sends another part than it was asked for", on=redact(response.url or "")
        )
    return HttpBody(response, offset=offset, total=place[2], decode=False)


def _told(response: requests.Response) -> str:
    """What the registry says of its refusal."""
    try:
        body = HttpBody(response, offset=0, total=None, decode=False)
        first = json.loads(whole(body, _LARGEST_ERROR))["errors"][0]
        text = f"{first.get('code', '')}: {first.get('message', '')}".strip(": ")
    except (TransferError, ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        return ""
    return redact_text(re.sub(r"[^\x20-\x7e]+", " ", text))[:200]
