"""Finding a container engine and asking it quick questions, without a Docker library.

A no-op must learn in milliseconds whether an engine answers and has an image; importing docker-py alone
takes a quarter of a second. Speaks the Docker Engine API (``/_ping``, version 1.41 = Docker 20.10, which
Podman's compatible socket serves too) over a Unix socket or TCP, with TLS as the docker command does it.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from lockbuild.errors import SandboxError
from lockbuild.reading import read_regular

API_VERSION = "1.41"
"""The API version that lockbuild speaks."""
PING_SECONDS = 1.0

EngineKind = Literal["docker", "podman"]


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """A directory with ca.pem, cert.pem and key.pem; ``verify`` is whether the engine's name is checked."""

    directory: Path
    verify: bool = True


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """An answer: HTTP status and body."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; SandboxError where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise SandboxError(f"the engine answered something that is no JSON: {self.body[:80]!r}") from None


@dataclass(frozen=True, slots=True)
class EngineEndpoint:
    """An engine that answered: ``url`` is ``unix:///path`` or ``tcp://host:port``."""

    url: str
    kind: EngineKind = "docker"
    tls: TlsMaterial | None = None

    def connect(self, timeout: float | None) -> http.client.HTTPConnection:
        """A new connection, not yet opened; ``timeout`` in seconds for each read and write."""
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return _UnixConnection(parts.path, timeout)
        host, port = parts.hostname or "localhost", parts.port
        if self.tls is not None:
            return http.client.HTTPSConnection(
                host, port or 2376, timeout=timeout, context=_tls_context(self.tls)
            )
        return http.client.HTTPConnection(host, port or 2375, timeout=timeout)

    def request(self, method: str, path: str, *, timeout: float = 10.0) -> EngineResponse:
        """Ask ``path`` (below the API version); SandboxError where the engine does not answer."""
        connection = self.connect(timeout)
        try:
            connection.request(method, f"/v{API_VERSION}{path}")
            response = connection.getresponse()
            return EngineResponse(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise SandboxError(
                f"the container engine does not answer: {error or type(error).__name__}",
                on=self.url,
                hint="is it running, and may you use it? (`docker version` tells)",
            ) from error
        finally:
            connection.close()


def find_engine(environ: Mapping[str, str]) -> EngineEndpoint | None:
    """The engine that the docker command would use, or one at a well-known socket; None where none answers.

    DOCKER_HOST, or a chosen docker context, is the user's word: then no other place is tried. Else the
    sockets of Docker, rootless Docker, Docker Desktop and Podman, in this order. Each has one second.
    """
    for url, tls in _candidates(environ):
        if not url.startswith(("unix://", "tcp://", "http://")):
            continue
        kind = _ping(EngineEndpoint(url, tls=tls))
        if kind is not None:
            return EngineEndpoint(url, kind, tls)
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, TlsMaterial | None]]:
    home = environ.get("HOME", "")
    config = Path(environ.get("DOCKER_CONFIG") or f"{home}/.docker")
    if host := environ.get("DOCKER_HOST"):
        yield host, _environment_tls(environ, config)
        return
    if (context := _current_context(environ, config)) is not None:
        yield context
        return
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    sockets = [
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        f"{home}/.docker/run/docker.sock",
        f"{home}/.docker/desktop/docker.sock",
    ]
    if container_host := environ.get("CONTAINER_HOST"):
        yield container_host, None
    sockets += [f"{runtime}/podman/podman.sock", "/run/podman/podman.sock"]
    for path in sockets:
        if Path(path).is_socket():
            yield f"unix://{path}", None


def _environment_tls(environ: Mapping[str, str], config: Path) -> TlsMaterial | None:
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    return TlsMaterial(Path(environ.get("DOCKER_CERT_PATH") or config), verify)


def _current_context(environ: Mapping[str, str], config: Path) -> tuple[str, TlsMaterial | None] | None:
    """The endpoint of the chosen docker context; None for the default one, or where it cannot be read."""
    name = environ.get("DOCKER_CONTEXT")
    try:
        if not name:
            name = json.loads(read_regular(config / "config.json")).get("currentContext")
        if not name or name == "default":
            return None
        import hashlib

        identity = hashlib.sha256(name.encode()).hexdigest()
        meta = json.loads(read_regular(config / "contexts" / "meta" / identity / "meta.json"))
        endpoint = meta["Endpoints"]["docker"]
        certificates = config / "contexts" / "tls" / identity / "docker"
        tls = (
            TlsMaterial(certificates, not endpoint.get("SkipTLSVerify", False))
            if certificates.is_dir()
            else None
        )
        return str(endpoint["Host"]), tls
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _ping(endpoint: EngineEndpoint) -> EngineKind | None:
    try:
        connection = endpoint.connect(PING_SECONDS)
    except (OSError, ValueError):
        return None
    try:
        connection.request("GET", "/_ping")
        response = connection.getresponse()
        response.read()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if response.status != 200 or response.getheader("Api-Version") is None:
        return None
    is_podman = response.getheader("Libpod-Api-Version") is not None
    return "podman" if is_podman else "docker"


def _tls_context(tls: TlsMaterial) -> Any:
    import ssl

    context = ssl.create_default_context(cafile=str(tls.directory / "ca.pem"))
    context.load_cert_chain(tls.directory / "cert.pem", tls.directory / "key.pem")
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
