"""What an answer, or none, means: which failure it is, whether asking again can help, and what to tell the user.

The libraries' own messages repeat URLs with their secrets; none of their text is passed on.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import origin, redact
from lockbuild.errors import FetchError
from lockbuild.transport.failures import NotFoundError, RefusedError, UnavailableError, UnreachableError

if TYPE_CHECKING:
    import requests

WORTH_RETRYING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which asking again can help."""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
_PROXY_HINT = (
    "give the user name and password of the proxy in https_proxy and http_proxy (http://USER:PASSWORD@HOST:PORT), "
    "or a token for its host in lockbuild's config.toml ([[hosts]])"
)
_AUTHORITY_HINT = (
    "name your organisation's CA in lockbuild's config.toml ([network] ca = [\"…\"]), or let REQUESTS_CA_BUNDLE or "
    "SSL_CERT_FILE name the bundle that has it"
)
_CERTIFICATE_HINT = 'if it wants a client certificate, name one for this host: [[hosts]] client-cert = "…"'


def refusal(response: requests.Response, url: str, credentials: Credentials) -> FetchError:
    """The failure that an answer to a request for ``url`` is, one with a status that is no success."""
    status = response.status_code
    said = f"the server answers {status} {response.reason or ''}".rstrip()
    if status == 407:
        return RefusedError("the proxy answers 407", on=redact(url), hint=_PROXY_HINT)
    place = response.url or url
    if origin(urlsplit(place)) != origin(urlsplit(url)):
        said = f"redirected to {redact(place)}, where {said}"
    if status in (404, 410):
        return NotFoundError(said, on=redact(url))
    if status in WORTH_RETRYING:
        return UnavailableError(said, on=redact(url))
    wants_to_know = status == 401 or (status == 403 and credentials.of(place) is not None)
    return RefusedError(said, on=redact(url), hint=credentials.hint(place) if wants_to_know else None)


def may_pass(error: Exception) -> bool:
    """Whether asking again can help: not with a bad URL or certificate, a proxy's refusal, an unknown host."""
    import socket
    import ssl

    from requests import exceptions
    from urllib3.exceptions import LocationValueError

    lasting = (
        exceptions.SSLError,
        exceptions.ProxyError,
        exceptions.InvalidURL,
        exceptions.InvalidSchema,
        LocationValueError,
    )
    root = _root_cause(error)
    unknown_host = isinstance(root, socket.gaierror) and root.errno == socket.EAI_NONAME
    return not isinstance(error, lasting) and not isinstance(root, ssl.SSLError) and not unknown_host


def _root_cause(error: BaseException) -> BaseException:
    """The innermost error: the library's own messages repeat URLs with their secrets."""
    while True:
        inner = getattr(error, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((item for item in reversed(error.args) if isinstance(item, BaseException)), None)
        inner = inner or error.__cause__ or error.__context__
        if inner is None:
            return error
        error = inner


def unreachable(url: str, error: Exception, setting: str | None = None) -> UnreachableError:
    """The failure that an exception of the library is, met on a request for ``url``, which ``setting`` named."""
    import ssl

    from requests.exceptions import ProxyError
    from urllib3.exceptions import LocationValueError

    root = _root_cause(error)
    proxy = isinstance(error, ProxyError)
    said, hint = f"{'the proxy ' if proxy else ''}cannot be reached: {type(root).__name__}", None
    if isinstance(root, ssl.SSLCertVerificationError):
        said = f"{'the certificate of the proxy' if proxy else 'its certificate'} is not trusted: {root.verify_message}"
        hint = _AUTHORITY_HINT
    elif isinstance(root, ssl.SSLError):
        reason = (root.reason or "handshake ended").replace("_", " ").lower()
        said = f"TLS with {'the proxy' if proxy else 'it'} fails: {reason}"
        hint = _CERTIFICATE_HINT if "certificate" in reason or "handshake" in reason else None
    elif isinstance(root, TimeoutError) or "Timeout" in type(error).__name__:
        said = "no answer within the time-out"
    elif isinstance(root, UnicodeError | LocationValueError):
        said = "it is no name of a host"
    elif refused := _TUNNEL.match(str(root)):
        said = f"the proxy answers {refused[1]}"
        hint = _PROXY_HINT if refused[1] == "407" else None
    elif isinstance(root, OSError) and root.strerror:
        said = f"{'the proxy ' if proxy else ''}cannot be reached: {root.strerror}"
    if proxy:
        said += _which_proxy(url)
    if hint is None:
        named = f"the place is of {setting}: " if setting else ""
        hint = f"{named}`lockbuild config show` says what is in force, `lockbuild doctor` what can be reached"
    return UnreachableError(said, on=redact(url), hint=hint)


def _which_proxy(url: str) -> str:
    """The variable that names the proxy for ``url``, and the proxy, without what is secret."""
    scheme = urlsplit(url).scheme
    for name in (f"{scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if value := os.environ.get(variable):
                shown = redact(value if "://" in value else f"http://{value}")
                return f" ({variable} names {shown})"
    return ""


def retry_after(value: str) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, section 10.2.3); None where there is none."""
    from email.utils import parsedate_to_datetime

    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
