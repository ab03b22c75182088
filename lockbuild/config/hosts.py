"""``[[hosts]]``: what is shown to a server so that it serves us. No secret stands in the file itself."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from lockbuild.config.fields import Section
from lockbuild.config.urls import Origin, origin

_PLAIN = re.compile(r"(?:https?://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?/?")


def origin_of_host(host: str) -> Origin:
    """The origin that ``host`` names: ``name``, ``name:port`` (both https), ``https://name``, ``http://name:port``."""
    return origin(urlsplit(host if "://" in host else f"https://{host}"))


def _host(value: str) -> str:
    try:
        valid = _PLAIN.fullmatch(value) is not None and bool(origin_of_host(value)[1])
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("is not a host name, host:port or http(s)://host:port")
    return value.rstrip("/")


class HostConfig(Section):
    """``[[hosts]]``: credentials for one host, port and scheme. They go nowhere else."""

    host: Annotated[str, AfterValidator(_host)]
    """``name`` or ``name:port`` for https; ``http://name:port`` for a server without TLS."""
    username: Annotated[str, Field(pattern="^[^:]+$")] | None = None
    """User name that goes with the token (HTTP Basic). Without one the token is sent as a bearer token (RFC 6750);
    to Git then with a user name that hosts of repositories ignore."""
    token_env: Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the token or password."""
    keyring: Annotated[str, Field(min_length=1)] | None = None
    """Service under whose name the system's keyring has the token or password (needs the library keyring)."""
    client_cert: str | None = None
    """Client certificate for TLS (PEM, with its chain), relative to this file."""
    client_key: str | None = None
    """Its private key (PEM, not encrypted), relative to this file; by default in the certificate's file."""

    @model_validator(mode="after")
    def _complete(self) -> HostConfig:
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("client-key: goes with client-cert")
        if self.client_cert is not None and self.origin[0] != "https":
            raise ValueError("client-cert: is for https only")
        return self

    @property
    def origin(self) -> Origin:
        """The scheme, host and port that it is for."""
        return origin_of_host(self.host)
