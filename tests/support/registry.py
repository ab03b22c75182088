"""A real registry on the loopback interface: Debian's docker-registry, over TLS or plain, with a password or tokens.

`token_service` is what gives the tokens: a real server that signs what the registry verifies.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import make_certificate
from tests.support.listening import Listener, listen, running

USER, PASSWORD = "alice", "correct horse"
_HASH = "$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2"
"""What htpasswd makes of the password (bcrypt)."""
_START_SECONDS = 30


@dataclass
class Registry:
    """A running registry. ``host`` is ``127.0.0.1:PORT``; ``certificate`` its authority's, where it speaks TLS."""

    host: str
    directory: Path
    certificate: Path | None = None
    password: str | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.host}"

    @property
    def log(self) -> str:
        """What it wrote: one line for each request."""
        return (self.directory / "log").read_text(errors="replace")

    def requests(self, method: str) -> list[str]:
        """The paths that were asked for, in order."""
        found = []
        for line in self.log.splitlines():
            parts = line.split('"')
            if len(parts) > 2 and parts[1].startswith(f"{method} "):
                found.append(parts[1].split()[1])
        return found

    def docker_config(self, directory: Path) -> dict[str, str]:
        """The environment of somebody who logged in with ``docker login``."""
        directory.mkdir(parents=True, exist_ok=True)
        auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (directory / "config.json").write_text(json.dumps({"auths": {self.host: {"auth": auth}}}))
        return {"DOCKER_CONFIG": str(directory)}

    @property
    def skopeo(self) -> tuple[str, ...]:
        """The options by which `skopeo inspect` gets in; `skopeo copy` puts src- or dest- before their names."""
        return (
            *(
                ("--cert-dir", str(self.directory / "tls/authority"))
                if self.certificate
                else ("--tls-verify=false",)
            ),
            *(("--creds", f"{USER}:{PASSWORD}") if self.password else ()),
        )

    def skopeo_copy(self, side: str) -> tuple[str, ...]:
        """The same for `skopeo copy`, where the registry is its ``src`` or ``dest``."""
        return tuple(
            f"--{side}-{option[2:]}" if option.startswith("--") else option for option in self.skopeo
        )

    def blob_file(self, digest: str) -> Path:
        """Where it keeps a blob's bytes."""
        hexadecimal = digest.removeprefix("sha256:")
        store = self.directory / "data/docker/registry/v2/blobs/sha256"
        return store / hexadecimal[:2] / hexadecimal / "data"


@contextmanager
def registry(
    directory: Path, *, tls: bool = False, password: bool = False, tokens: TokenService | None = None
) -> Iterator[Registry]:
    """Start one that keeps its data below ``directory``; it is ended by its process id."""
    program = shutil.which("docker-registry")
    assert program, "these tests need docker-registry: apt install docker-registry"
    directory.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    running_one = Registry(host, directory, password=PASSWORD if password else None)
    configuration: dict[str, object] = {
        "version": "0.1",
        "log": {"accesslog": {"disabled": False}, "level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": str(directory / "data")},
            "delete": {"enabled": True},
        },
        "http": {"addr": host, "secret": secrets.token_hex(8)},
    }
    if tls:
        both = make_certificate(directory / "tls")
        running_one.certificate = both.parent / "certificate.pem"
        authority = both.parent / "authority"  # a directory as containers' tools want it
        authority.mkdir()
        shutil.copy(running_one.certificate, authority / "ca.crt")
        configuration["http"] = {
            "addr": host,
            "secret": secrets.token_hex(8),
            "tls": {"certificate": str(running_one.certificate), "key": str(both.parent / "key.pem")},
        }
    if password:
        (directory / "htpasswd").write_text(f"{USER}:{_HASH}\n")
        configuration["auth"] = {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}}
    if tokens is not None:
        configuration["auth"] = {
            "token": {
                "realm": f"{tokens.url}/token",
                "service": tokens.service,
                "issuer": tokens.issuer,
                "rootcertbundle": str(tokens.certificate),
            }
        }
    file = directory / "config.json"  # JSON is YAML
    file.write_text(json.dumps(configuration))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")},
        )
    try:
        _wait(process, running_one)
        yield running_one
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], one: Registry) -> None:
    host, _, port = one.host.rpartition(":")
    limit = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=1):
                return
        except OSError:
            assert process.poll() is None, one.log
            assert time.monotonic() < limit, one.log
            time.sleep(0.02)


@dataclass
class TokenService:
    """Gives tokens for whatever a user may do. ``asked`` has each request: its query or form, and its credentials.

    ``lifetime`` is that of the tokens in seconds. ``identity`` is a token that stands for the user.
    """

    url: str
    certificate: Path
    key: Path
    service: str = "test registry"
    issuer: str = "test issuer"
    lifetime: int = 60
    identity: str = "identity-" + "t" * 20
    anonymous: tuple[str, ...] = ("pull",)
    asked: list[tuple[dict[str, list[str]], str | None]] = field(default_factory=list)

    def token(self, scopes: list[str], *, known: bool) -> str:
        """A JSON Web Token (RFC 7519, ES256) as the registry wants it."""
        now = int(time.time())
        access = []
        for scope in scopes:
            kind, _, rest = scope.partition(":")
            name, _, actions = rest.rpartition(":")
            allowed = [a for a in actions.split(",") if known or a in self.anonymous]
            access.append({"type": kind, "name": name, "actions": allowed})
        der = subprocess.run(
            ["openssl", "x509", "-in", str(self.certificate), "-outform", "DER"],
            check=True,
            capture_output=True,
        ).stdout
        header = {"alg": "ES256", "typ": "JWT", "x5c": [base64.b64encode(der).decode()]}
        claims = {
            "iss": self.issuer, "sub": USER if known else "", "aud": self.service,
            "exp": now + self.lifetime, "nbf": now - 5, "iat": now, "jti": secrets.token_hex(8), "access": access,
        }  # fmt: skip
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", str(self.key)],
            input=signed.encode(),
            check=True,
            capture_output=True,
        ).stdout
        return f"{signed}.{_base64(_raw(signature))}"


class _TokenHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def do_GET(self) -> None:
        self._answer(parse_qs(urlsplit(self.path).query), self.headers.get("Authorization"))

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer(form, form.get("refresh_token", [""])[0])

    def _answer(self, query: dict[str, list[str]], shown: str | None) -> None:
        owner: TokenService = self.server.owner
        owner.asked.append((query, shown))
        basic = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        known = shown in (basic, owner.identity)
        if shown is not None and not known:
            status, body = 401, b"{}"
        else:
            scopes = [scope for text in query.get("scope", []) for scope in text.split()]
            value = {"token": owner.token(scopes, known=known), "expires_in": owner.lifetime}
            status, body = 200, json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@contextmanager
def token_service(directory: Path, *, tls: bool = False) -> Iterator[TokenService]:
    """A token service until the end of the block; its key and certificate are made below ``directory``."""
    both = make_certificate(directory)
    listener = listen(_TokenHandler)
    scheme = "https" if tls else "http"
    owner = TokenService(
        f"{scheme}://127.0.0.1:{listener.server_port}", directory / "certificate.pem", directory / "key.pem"
    )
    listener.owner = owner
    with running(listener, certificate=both if tls else None):
        yield owner


class _FrontHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def _pass(self) -> None:
        owner: Front = self.server.owner
        length = int(self.headers.get("Content-Length", "0"))
        owner.requests.append((self.command, self.path, length, self.headers.get("Content-Range")))
        body = self.rfile.read(length)
        if length > owner.limit:
            self._reply(413, [], b"")
            return
        connection = http.client.HTTPConnection(owner.backend)
        headers = {name: value for name, value in self.headers.items() if name != "Connection"}
        connection.request(self.command, self.path, body=body, headers=headers)
        response = connection.getresponse()
        kept = [
            (name, value)
            for name, value in response.getheaders()
            if name not in ("Content-Length", "Transfer-Encoding", "Connection")
        ]
        length_of_head = response.getheader("Content-Length") if self.command == "HEAD" else None
        self._reply(response.status, kept, response.read(), length_of_head)
        connection.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = _pass  # noqa: N815

    def _reply(
        self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@dataclass
class Front:
    """A proxy before a registry that takes no request with a body beyond ``limit`` bytes, as many in the wild."""

    host: str
    backend: str
    limit: int
    requests: list[tuple[str, str, int, str | None]] = field(default_factory=list)


@contextmanager
def front(backend: Registry, *, limit: int) -> Iterator[Front]:
    """Such a proxy until the end of the block."""
    listener = listen(_FrontHandler)
    owner = Front(f"127.0.0.1:{listener.server_port}", backend.host, limit)
    listener.owner = owner
    with running(listener):
        yield owner


def skopeo(*arguments: str | Path, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run skopeo; AssertionError with what it says where it ends with another ``status``."""
    done = subprocess.run(
        ["skopeo", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    assert status is None or done.returncode == status, done.stderr
    return done


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _raw(signature: bytes) -> bytes:
    """An ECDSA signature as JWS has it: r and s, 32 bytes each, in the place of DER."""
    position, numbers = 2, []
    for _ in range(2):
        length = signature[position + 1]
        numbers.append(int.from_bytes(signature[position + 2 : position + 2 + length]))
        position += 2 + length
    return b"".join(number.to_bytes(32) for number in numbers)
