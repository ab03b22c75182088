"""The HTTP client under `Http`: connections, credentials and redirects.

Proxies and ``no_proxy`` are as requests takes them from the environment. Redirects are followed here, each as a
request of its own, so that what was meant for one origin (RFC 6454) goes to no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import origin, redact
from lockbuild.transport.failures import RefusedError
from lockbuild.transport.trust import Trust

if TYPE_CHECKING:
    import requests
    from requests.adapters import HTTPAdapter
    from typing_extensions import Buffer

_REDIRECTS = (301, 302, 303, 307, 308)
_MAXIMUM_REDIRECTS = 10


def new_session(
    credentials: Credentials, trust: Trust, *, connections: int, user_agent: str
) -> requests.Session:
    """A session for up to ``connections`` threads at once: one pool, no cookies."""
    from http.cookiejar import DefaultCookiePolicy

    import requests
    from requests.auth import AuthBase

    class PlainSession(requests.Session):
        """Sees no redirect: requests would read the body that comes with one, however long."""

        def get_redirect_target(self, resp: requests.Response) -> None:
            return None

    class Authorisation(AuthBase):
        """In the place of what requests does with netrc and URLs: it would use netrc's default for any host."""

        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            credential = credentials.of(request.url or "")
            if credential is not None:
                request.headers["Authorization"] = credential.header
            return request

    session = PlainSession()
    session.auth = Authorisation()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["User-Agent"] = user_agent
    adapter = _adapter(credentials, trust, connections)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _adapter(credentials: Credentials, trust: Trust, connections: int) -> HTTPAdapter:
    from requests.adapters import HTTPAdapter

    from lockbuild.transport.connection import POOLS

    class TrustingAdapter(HTTPAdapter):
        """Verifies by ``trust`` alone; requests would add the bundle of certifi to it."""

        def init_poolmanager(self, *arguments: Any, **keywords: Any) -> None:
            super().init_poolmanager(*arguments, ssl_context=trust.context(), **keywords)
            self.poolmanager.pool_classes_by_scheme = POOLS

        def proxy_manager_for(self, proxy: str, **keywords: Any) -> Any:
            if urlsplit(proxy).scheme == "https":
                keywords["proxy_ssl_context"] = trust.context(proxy)
            manager = super().proxy_manager_for(proxy, ssl_context=trust.context(), **keywords)
            manager.pool_classes_by_scheme = POOLS
            return manager

        def proxy_headers(self, proxy: str) -> dict[str, str]:
            credential = credentials.of(proxy)
            return {} if credential is None else {"Proxy-Authorization": credential.header}

        def build_connection_pool_key_attributes(
            self, request: requests.PreparedRequest, verify: Any, cert: Any = None
        ) -> Any:
            host, keywords = super().build_connection_pool_key_attributes(request, verify, cert)
            if host["scheme"] == "https":
                keywords["ssl_context"] = trust.context(request.url)
            return host, keywords

        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            conn.cert_reqs = "CERT_REQUIRED"

        def send(self, request: Any, *arguments: Any, **keywords: Any) -> Any:
            keywords["verify"] = True
            return super().send(request, *arguments, **keywords)

    return TrustingAdapter(pool_connections=connections, pool_maxsize=connections)


def follow(
    session: requests.Session,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    timeout: float,
    authorise: Callable[[requests.PreparedRequest], requests.PreparedRequest] | None = None,
    body: Callable[[], Iterable[Buffer] | bytes] | None = None,
    stay: bool = False,
) -> requests.Response:
    """Send, and follow redirects. The response is open; RefusedError for a redirect that must not be.

    ``authorise`` takes the place of the session's own credentials, and is asked for each request of a redirect.
    ``body`` is asked for what to send each time; with ``stay`` it is for one origin, and a redirect to another is an
    error.
    """
    for _ in range(_MAXIMUM_REDIRECTS + 1):
        response = session.request(
            method,
            url,
            headers=dict(headers),
            timeout=timeout,
            stream=True,
            allow_redirects=False,
            auth=authorise,
            data=None if body is None else body(),  # type: ignore[arg-type]  # pieces of any buffer will do
        )
        location = response.headers.get("Location")
        if response.status_code not in _REDIRECTS or not location:
            return response
        # Not read to its end: a body of any length can come with a redirect.
        response.close()
        following = _redirected(url, location.encode("latin-1").decode("utf-8", "replace"))
        if stay and origin(urlsplit(following)) != origin(urlsplit(url)):
            raise RefusedError(
                f"the server redirects to {redact(following)}, which must not see what is sent",
                on=redact(url),
            )
        url = following
    raise RefusedError(f"more than {_MAXIMUM_REDIRECTS} redirects", on=redact(url))


def _redirected(url: str, location: str) -> str:
    try:
        old, new = urlsplit(url), urlsplit(urljoin(url, location))
        old_origin, new_origin = origin(old), origin(new)
    except ValueError:
        raise RefusedError("the server redirects to a malformed URL", on=redact(url)) from None
    if new.scheme not in ("http", "https") or (old.scheme == "https" and new.scheme == "http"):
        raise RefusedError(
            f"the server redirects from {old.scheme} to {new.scheme}, which is not allowed", on=redact(url)
        )
    if old_origin == new_origin and "@" in old.netloc and "@" not in new.netloc:
        new = new._replace(netloc=old.netloc)
    return urlunsplit(new)
