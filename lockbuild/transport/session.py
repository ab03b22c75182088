"""The HTTP client under `Http`: trust, connections, credentials and redirects.

Proxies, ``no_proxy`` and netrc are as requests takes them from the environment. Redirects are followed
here, each as a request of its own, so that what was meant for one origin (RFC 6454) goes to no other.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from lockbuild.config.urls import redact
from lockbuild.transport.failures import RefusedError

if TYPE_CHECKING:
    import requests
    from requests.adapters import HTTPAdapter

_REDIRECTS = (301, 302, 303, 307, 308)
_MAXIMUM_REDIRECTS = 10
_PORTS = {"http": 80, "https": 443}


def new_session(connections: int, user_agent: str) -> requests.Session:
    """A session for up to ``connections`` threads at once: one pool, no cookies."""
    from http.cookiejar import DefaultCookiePolicy

    import requests

    class PlainSession(requests.Session):
        """Sees no redirect: requests would read the body that comes with one, however long."""

        def get_redirect_target(self, resp: requests.Response) -> None:
            return None

    session = PlainSession()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["User-Agent"] = user_agent
    adapter = _adapter(trust(os.environ), connections)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to trust: the bundle that the environment names as requests and OpenSSL do, else the system."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        bundle = environ.get(name)
        if bundle and os.path.exists(bundle):  # noqa: PTH110  the value goes to OpenSSL as it is
            if os.path.isdir(bundle):  # noqa: PTH112
                return ssl.create_default_context(capath=bundle)
            return ssl.create_default_context(cafile=bundle)
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _adapter(context: ssl.SSLContext, connections: int) -> HTTPAdapter:
    from requests.adapters import HTTPAdapter

    class TrustingAdapter(HTTPAdapter):
        """Verifies by ``context`` alone; requests would add the bundle of certifi to it."""

        def init_poolmanager(self, *arguments: Any, **keywords: Any) -> None:
            super().init_poolmanager(*arguments, ssl_context=context, **keywords)

        def proxy_manager_for(self, proxy: str, **keywords: Any) -> Any:
            if urlsplit(proxy).scheme == "https":
                keywords["proxy_ssl_context"] = context
            return super().proxy_manager_for(proxy, ssl_context=context, **keywords)

        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            conn.cert_reqs = "CERT_REQUIRED"

        def send(self, request: Any, *arguments: Any, **keywords: Any) -> Any:
            keywords["verify"] = True
            return super().send(request, *arguments, **keywords)

    return TrustingAdapter(pool_connections=connections, pool_maxsize=connections)


def follow(
    session: requests.Session, method: str, url: str, *, headers: Mapping[str, str], timeout: float
) -> requests.Response:
    """Send, and follow redirects. The response is open; RefusedError for a redirect that must not be."""
    for _ in range(_MAXIMUM_REDIRECTS + 1):
        response = session.request(
            method, url, headers=dict(headers), timeout=timeout, stream=True, allow_redirects=False
        )
        location = response.headers.get("Location")
        if response.status_code not in _REDIRECTS or not location:
            return response
        # Not read to its end: a body of any length can come with a redirect.
        response.close()
        url = _redirected(url, location.encode("latin-1").decode("utf-8", "replace"))
    raise RefusedError(f"more than {_MAXIMUM_REDIRECTS} redirects", on=redact(url))


def _redirected(url: str, location: str) -> str:
    try:
        old, new = urlsplit(url), urlsplit(urljoin(url, location))
        old_origin, new_origin = _origin(old), _origin(new)
    except ValueError:
        raise RefusedError("the server redirects to a malformed URL", on=redact(url)) from None
    if new.scheme not in _PORTS or (old.scheme == "https" and new.scheme == "http"):
        raise RefusedError(
            f"the server redirects from {old.scheme} to {new.scheme}, which is not allowed", on=redact(url)
        )
    if old_origin == new_origin and "@" in old.netloc and "@" not in new.netloc:
        new = new._replace(netloc=old.netloc)
    return urlunsplit(new)


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def with_credentials_of(url: str, page: str) -> str:
    """``url`` with the user name and password of ``page`` where both are of one origin."""
    own, other = urlsplit(url), urlsplit(page)
    if "@" in other.netloc and "@" not in own.netloc and _origin(own) == _origin(other):
        return urlunsplit(own._replace(netloc=other.netloc))
    return url
