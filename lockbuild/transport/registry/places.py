"""Where a registry's API is: with TLS or without, at which host, and at which mirrors.

What a reference names is canonical: ``https://REGISTRY/v2/REPOSITORY/…``, and `[[mirrors]]` are for prefixes of
that. Without TLS goes only what the user says (``[registries] plain-http``, or a mirror's ``http://``), and
registries on the loopback interface, which are asked which of both they speak.
"""

from __future__ import annotations

import ipaddress
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockbuild.config import Config
from lockbuild.config.docker import HUB
from lockbuild.model.reference import Reference

if TYPE_CHECKING:
    from lockbuild.transport.client import Client

_HUB_API = f"registry-1.{HUB}"
_PROBE_SECONDS = 5.0


class RegistryPlaces:
    """Thread-safe."""

    def __init__(self, config: Config, client: Client) -> None:
        self._config = config
        self._client = client
        self._lock = threading.Lock()
        self._schemes: dict[str, str] = {}

    def reading(self, reference: Reference, path: str) -> list[str]:
        """The URLs of ``path`` below the repository, to be tried in order."""
        canonical = f"https://{reference.registry}/v2/{reference.repository}/{path}"
        places = self._config.places(canonical)
        return [self.writing(reference, path) if place == canonical else place for place in places]

    def writing(self, reference: Reference, path: str) -> str:
        """The URL of ``path`` below the repository, at the registry itself."""
        registry = reference.registry
        host = _HUB_API if registry == HUB else registry
        return f"{self._scheme(registry)}://{host}/v2/{reference.repository}/{path}"

    def _scheme(self, registry: str) -> str:
        if registry in self._config.registries.plain_http:
            return "http"
        if not on_loopback(registry):
            return "https"
        with self._lock:
            if registry not in self._schemes:
                self._schemes[registry] = "http" if self._speaks_http(registry) else "https"
            return self._schemes[registry]

    def _speaks_http(self, registry: str) -> bool:
        """Whether it answers without TLS. Shows nothing to anybody."""
        import requests
        from urllib3.exceptions import HTTPError

        try:
            response = self._client.session().get(
                f"http://{registry}/v2/",
                timeout=_PROBE_SECONDS,
                allow_redirects=False,
                stream=True,
                auth=lambda request: request,
            )
        except (requests.RequestException, HTTPError, OSError):
            return False
        response.close()
        # A server with TLS says 400 to whoever comes without.
        return bool(response.status_code != 400)


def on_loopback(registry: str) -> bool:
    """Whether ``registry`` (``host`` or ``host:port``) is on this machine's loopback interface."""
    host = urlsplit(f"//{registry}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
