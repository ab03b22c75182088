"""How a registry learns who asks: HTTP Basic, or tokens of the service that it names.

"Token Authentication Specification" and "OAuth 2.0" of the distribution project; challenges as RFC 9110,
section 11, has them. What is meant for a registry goes to it and to the token service that it names in its
challenge, to no place that either redirects to; and never without TLS, unless the registry itself has none.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from lockbuild.config.credentials import Credential, Credentials
from lockbuild.config.docker import DockerCredentials, IdentityToken
from lockbuild.config.urls import Origin, origin, redact
from lockbuild.transport.body import HttpBody, whole
from lockbuild.transport.client import Client
from lockbuild.transport.failures import MalformedError, RefusedError, TooLargeError

if TYPE_CHECKING:
    import requests

_LARGEST_ANSWER = 1 << 20
_SCHEME = re.compile(r"[\s,]*([A-Za-z][A-Za-z0-9._~+-]*)(?=[\s,]|$)(?!\s*=)")
_PARAMETER = re.compile(r'\s*,?\s*([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_DEFAULT_LIFETIME = 60.0
_LONGEST_LIFETIME = 86400 * 365
_MARGIN = 10.0
"""Seconds before its end from which on a token is not used any more."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of WWW-Authenticate: its scheme in lower case, and its parameters."""

    scheme: str
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Token:
    header: str = field(repr=False)
    until: float


def challenges(header: str) -> list[Challenge]:
    """The challenges of a WWW-Authenticate header, as far as it can be understood."""
    found, position = [], 0
    while scheme := _SCHEME.match(header, position):
        position = scheme.end()
        parameters: dict[str, str] = {}
        while pair := _PARAMETER.match(header, position):
            quoted = None if pair[2] is None else re.sub(r"\\(.)", r"\1", pair[2])
            parameters[pair[1].lower()] = pair[3] if quoted is None else quoted
            position = pair.end()
        found.append(Challenge(scheme[1].lower(), parameters))
    return found


class Authority:
    """What to show to which registry. Thread-safe; tokens are kept as long as they are good."""

    def __init__(self, client: Client, credentials: Credentials, docker: DockerCredentials) -> None:
        self._client = client
        self._credentials = credentials
        self._docker = docker
        self._lock = threading.Lock()
        self._wanted: dict[Origin, Challenge] = {}
        self._tokens: dict[tuple[Origin, tuple[str, ...]], _Token] = {}

    def header(self, url: str, scopes: tuple[str, ...]) -> str | None:
        """The Authorization header for a request to ``url``, as far as its registry has said what it wants."""
        place = origin(urlsplit(url))
        challenge = self._wanted.get(place)
        if challenge is None:
            return None
        if challenge.scheme == "basic":
            credential = self._credential(url)
            return credential.header if isinstance(credential, Credential) else None
        with self._lock:
            token = self._tokens.get((place, scopes))
            if token is None or token.until <= time.monotonic():
                token = self._tokens[place, scopes] = self._token(url, challenge, scopes)
            return token.header

    def answer(self, url: str, scopes: tuple[str, ...], asked: str, shown: str | None) -> str | None:
        """The header that the challenge ``asked`` (WWW-Authenticate) wants, where it is not what was ``shown``.

        None where there is nothing else to show.
        """
        place = origin(urlsplit(url))
        understood = {challenge.scheme: challenge for challenge in reversed(challenges(asked))}
        challenge = understood.get("bearer") or understood.get("basic")
        if challenge is None:
            return None
        with self._lock:
            self._wanted[place] = challenge
            known = self._tokens.get((place, scopes))
            if known is not None and known.header == shown:
                del self._tokens[place, scopes]  # it has expired before its time, or was for something else
        header = self.header(url, scopes)
        return header if header != shown else None

    def knows(self, url: str) -> bool:
        """Whether there is anything to show to the registry of ``url``."""
        return self._credential(url) is not None

    def _credential(self, url: str) -> Credential | IdentityToken | None:
        parts = urlsplit(url)
        if "@" not in parts.netloc:
            found = self._docker.of(parts.netloc)
            if found is not None:
                return found
        return self._credentials.of(url)

    def _token(self, url: str, challenge: Challenge, scopes: tuple[str, ...]) -> _Token:
        credential = self._credential(url)
        if isinstance(credential, Credential) and credential.user is None:
            return _Token(credential.header, float("inf"))
        realm = self._realm(url, challenge)
        wanted = sorted(scopes)
        service = challenge.parameters.get("service")
        parameters = [("service", service)] if service else []
        if isinstance(credential, IdentityToken):
            form = [
                ("grant_type", "refresh_token"),
                ("client_id", "lockbuild"),
                ("refresh_token", credential.secret),
                ("scope", " ".join(wanted)),
            ]
            body = urlencode(parameters + form).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            response = self._ask("POST", realm, headers, None, body)
        else:
            query = urlencode([*parameters, *(("scope", scope) for scope in wanted)])
            place = realm + ("&" if urlsplit(realm).query else "?") + query if query else realm
            response = self._ask("GET", place, {}, credential, None)
        return _read_token(response, realm)

    def _realm(self, url: str, challenge: Challenge) -> str:
        realm = challenge.parameters.get("realm", "")
        try:
            parts = urlsplit(realm)
            _ = parts.port
        except ValueError:
            parts = urlsplit("")
        allowed = ("https", "http") if urlsplit(url).scheme == "http" else ("https",)
        if parts.scheme not in allowed or not parts.hostname or "@" in parts.netloc:
            raise RefusedError(
                f"its token service is given as {redact(realm)!r}, which is no place for credentials",
                on=redact(url),
                hint="the service must be an https:// URL; ask whoever runs the registry",
            )
        return realm

    def _ask(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        credential: Credential | None,
        body: bytes | None,
    ) -> requests.Response:
        response = self._client.send(
            method,
            url,
            {"Accept": "application/json", "Accept-Encoding": "identity", **headers},
            expected=range(400, 500),
            authorise=authorising(url, None if credential is None else credential.header),
            body=None if body is None else lambda: body,
            stay=body is not None,  # a redirect would take the secret in it with it
        )
        if response.status_code < 400:
            return response
        response.close()
        raise RefusedError(
            f"the token service answers {response.status_code} {response.reason or ''}".rstrip(),
            on=redact(url).partition("?")[0],
            hint=login_hint(known=credential is not None or body is not None),
        )


def authorising(
    url: str, header: str | None
) -> Callable[[requests.PreparedRequest], requests.PreparedRequest]:
    """Show ``header`` to the origin of ``url``, and nothing to any other."""
    meant_for = origin(urlsplit(url))

    def authorise(request: requests.PreparedRequest) -> requests.PreparedRequest:
        if header is not None and origin(urlsplit(request.url or "")) == meant_for:
            request.headers["Authorization"] = header
        return request

    return authorise


def login_hint(*, known: bool) -> str:
    """What to do when a registry does not let us in."""
    if known:
        return "check the user name and password or token for this registry, and what it allows that user"
    return (
        "log in with `docker login REGISTRY`, or name a token for the registry's host in lockbuild's config.toml "
        "([[hosts]])"
    )


def _read_token(response: requests.Response, realm: str) -> _Token:
    asked = time.monotonic()
    value: Any = None
    with suppress(TooLargeError, ValueError, RecursionError):
        value = json.loads(whole(HttpBody(response, offset=0, total=None, decode=False), _LARGEST_ANSWER))
    value = value if isinstance(value, dict) else {}
    token = value.get("token") or value.get("access_token")
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise MalformedError("the token service gives no token", on=redact(realm))
    lifetime = value.get("expires_in")
    number = isinstance(lifetime, int | float) and 0 <= lifetime <= _LONGEST_LIFETIME
    seconds = float(lifetime) if number else _DEFAULT_LIFETIME
    return _Token(f"Bearer {token}", asked + max(seconds - _MARGIN, seconds / 2))
