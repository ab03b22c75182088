"""What to show to which server: tokens of the environment or a keyring, npm's, netrc, what stands in URLs.

A credential belongs to an origin, scheme and port included, and is looked up anew for each request, so that
none follows a redirect. netrc alone knows no ports and schemes; its ``default`` entry, which is for any host, is
not used. Whatever holds a secret here shows it in no representation.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lockbuild.config.hosts import HostConfig
from lockbuild.config.urls import Origin, origin
from lockbuild.errors import UsageError

if TYPE_CHECKING:
    from lockbuild.config import Config

_BEARER = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Credential:
    """A password or token for ``user``; a bearer token where that is None."""

    user: str | None = field(repr=False)
    secret: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of Authorization (RFC 7617, RFC 6750)."""
        if self.user is None:
            return f"Bearer {self.secret}"
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


class Credentials:
    """Those that the user has, by URL. ``environ`` is the process's. Thread-safe."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._hosts = {host.origin: host for host in config.hosts}
        self._environ = environ
        self._lock = threading.Lock()
        self._known: dict[Origin, Credential | None] = {}
        self._npm_registry = config.npm.registry
        self._npm: list[tuple[str, Credential]] | None = None
        self._netrc: dict[str, Credential] | None = None
        self._trouble: str | None = None

    def of(self, url: str) -> Credential | None:
        """What to show to the server of ``url``: what stands in it, else `[[hosts]]`, else npm's token, else netrc."""
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            return Credential(unquote(parts.username or ""), unquote(parts.password or ""))
        key = origin(parts)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._of_host(key)
            return self._known[key] or self._of_npm(url) or self._of_netrc().get(parts.hostname or "")

    def certificate(self, key: Origin) -> tuple[Path, Path | None] | None:
        """The client certificate and key (None: in the same file) for an origin."""
        host = self._hosts.get(key)
        if host is None or host.client_cert is None:
            return None
        return Path(host.client_cert), Path(host.client_key) if host.client_key else None

    def certified(self) -> list[Origin]:
        """The origins that have a client certificate."""
        return [key for key, host in self._hosts.items() if host.client_cert is not None]

    def hint(self, url: str) -> str:
        """What to do when the server of ``url`` wants to know who asks, or does not like what it was shown."""
        host = self._hosts.get(origin(urlsplit(url)))
        if host is not None and host.token_env and not self._environ.get(host.token_env):
            return (
                f"the environment variable {host.token_env}, which has the token for {host.host}, is not set"
            )
        if self.of(url) is not None:
            return "check the user name, password or token for this host"
        if self._trouble is not None:
            return self._trouble
        return (
            "put the user name and password for this host into ~/.netrc, or name a token for it in lockbuild's "
            "config.toml ([[hosts]])"
        )

    def _of_host(self, key: Origin) -> Credential | None:
        host = self._hosts.get(key)
        if host is None:
            return None
        secret = self._environ.get(host.token_env, "").strip() if host.token_env else ""
        found = Credential(host.username, secret) if secret else None
        if found is None and host.keyring is not None:
            found = _of_keyring(host)
        if found is not None and found.user is None and not _BEARER.fullmatch(found.secret):
            raise UsageError(
                "the token for it has characters that no bearer token has",
                on=f"hosts: {host.host}",
                hint="give username as well, if it is a password",
            )
        return found

    def _of_npm(self, url: str) -> Credential | None:
        """A token is for a registry, which can be a part of a host."""
        if self._npm is None:
            from lockbuild.config.npm import tokens

            found = tokens(self._npm_registry, self._environ)
            self._npm = [
                (prefix, Credential(None, token)) for prefix, token in found if _BEARER.fullmatch(token)
            ]
        return next((credential for prefix, credential in self._npm if url.startswith(prefix)), None)

    def _of_netrc(self) -> dict[str, Credential]:
        if self._netrc is None:
            self._netrc = {}
            path = netrc_path(self._environ)
            if path is not None:
                self._netrc, self._trouble = _read_netrc(path)
        return self._netrc


def netrc_path(environ: Mapping[str, str]) -> Path | None:
    """The netrc file that is in force: ``NETRC``, else ``~/.netrc``, else ``~/_netrc``; None where there is none."""
    named = environ.get("NETRC")
    if named:
        candidates = [Path(named).expanduser()]
    else:
        home = Path(environ.get("HOME") or "~").expanduser()
        candidates = [home / ".netrc", home / "_netrc"]
    return next((path for path in candidates if path.is_file()), None)


def _read_netrc(path: Path) -> tuple[dict[str, Credential], str | None]:
    """Host name -> credential, and what is wrong with the file. Its text goes into no message: it is secret."""
    import netrc

    try:
        hosts = netrc.netrc(str(path)).hosts
    except netrc.NetrcParseError as error:
        return {}, f"correct {path} (near line {error.lineno}), which was passed over"
    except (OSError, UnicodeDecodeError):
        return {}, f"let {path} be readable, which was passed over"
    return {
        name.lower(): Credential(login or account or "", password or "")
        for name, (login, account, password) in hosts.items()
        if name != "default"
    }, None


def _of_keyring(host: HostConfig) -> Credential | None:
    import importlib

    on = f"hosts: {host.host}"
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise UsageError(
            "the library keyring, which the configuration asks for, is not installed",
            on=on,
            hint="install it beside lockbuild (`pip install keyring`), or give the token by token-env",
        ) from None
    try:
        if host.username is not None:
            secret = keyring.get_password(host.keyring, host.username)
            return Credential(host.username, secret) if secret else None
        found = keyring.get_credential(host.keyring, None)
    except Exception as error:  # whatever a back-end raises; its text may hold anything
        raise UsageError(
            f"the keyring cannot be read: {type(error).__name__}", on=on, hint="unlock it, or use token-env"
        ) from None
    return Credential(found.username or None, found.password) if found and found.password else None
