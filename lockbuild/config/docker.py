"""Credentials for image registries where ``docker login`` puts them: Docker's own configuration and helpers.

``$DOCKER_CONFIG/config.json``, by default ``~/.docker/config.json``: ``credHelpers`` and ``credsStore`` name
programs (``docker-credential-NAME``) that are asked first, ``auths`` has the rest. Read by Docker's own library.
No text of a helper or of the file goes into a message: it may be secret.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockbuild.config.credentials import Credential
from lockbuild.errors import UsageError
from lockbuild.reading import read_regular_text

HUB = "docker.io"
"""The registry that Docker's configuration has under other names as well."""


@dataclass(frozen=True, slots=True)
class IdentityToken:
    """What a registry's token service gives an access token for (OAuth 2.0 refresh token)."""

    secret: str = field(repr=False)


class DockerCredentials:
    """Those of Docker's configuration, by registry. ``environ`` is the process's. Thread-safe."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._known: dict[str, Credential | IdentityToken | None] = {}
        self._file: Any = None

    @property
    def path(self) -> Path:
        """The file, which need not be there."""
        named = self._environ.get("DOCKER_CONFIG")
        home = Path(self._environ.get("HOME") or "~").expanduser()
        return (Path(named) if named else home / ".docker") / "config.json"

    def of(self, registry: str) -> Credential | IdentityToken | None:
        """What Docker would show to ``registry`` (``host`` or ``host:port``).

        UsageError where the file cannot be used, or a helper that it names fails.
        """
        registry = HUB if registry in (f"index.{HUB}", f"registry-1.{HUB}") else registry
        with self._lock:
            if registry not in self._known:
                self._known[registry] = self._ask(registry)
            return self._known[registry]

    def _ask(self, registry: str) -> Credential | IdentityToken | None:
        if self._file is None:
            self._file = self._read()
        if not self._file:
            return None
        import shutil

        from docker import auth, errors

        helper = self._file.get_credential_store(registry)
        if helper is not None and shutil.which(f"docker-credential-{helper}") is None:
            if not self._file.auths.get(registry):
                raise self._trouble(
                    f"names the credential helper docker-credential-{helper}, which is not on PATH"
                )
            self._file.pop("credsStore", None)
            self._file.get("credHelpers", {}).pop(registry, None)
        try:
            found = auth.resolve_authconfig(self._file, registry) or {}
        except errors.DockerException:
            raise self._trouble(f"the credential helper docker-credential-{helper} failed") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._trouble(
                f"the credential helper docker-credential-{helper} gave no credentials"
            ) from None
        if found.get("IdentityToken"):
            return IdentityToken(str(found["IdentityToken"]))
        user = found.get("username", found.get("Username"))
        secret = found.get("password", found.get("Password"))
        return Credential(str(user), str(secret)) if user and secret is not None else None

    def _read(self) -> Any:
        """Docker's `AuthConfig`; an empty mapping where there is no file."""
        path = self.path
        try:
            text = read_regular_text(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise self._trouble(f"cannot be read: {reason}") from None
        from docker import auth, errors

        try:
            settings = json.loads(text)
            known = {name: settings.get(name) for name in ("auths", "credsStore", "credHelpers")}
            present = {name: value for name, value in known.items() if value}
            return auth.load_config(config_dict=present) if present else {}
        except (errors.DockerException, ValueError, RecursionError, TypeError, AttributeError):
            raise self._trouble("is no configuration of Docker") from None

    def _trouble(self, what: str) -> UsageError:
        return UsageError(
            what,
            on=str(self.path),
            hint="correct that file, or log in again (`docker login REGISTRY`); DOCKER_CONFIG names another directory",
        )
