"""Finding an engine: where is looked, in which order, and how fast the answer is."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockbuild.errors import SandboxError
from lockbuild.transport.engine import EngineEndpoint, find_engine


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as an engine does; ``headers_sent`` are those of its ping."""

    ping_headers: dict[str, str] = {}
    delay = 0.0

    def do_GET(self) -> None:
        time.sleep(self.delay)
        body = b"OK" if self.path == "/_ping" else json.dumps({"path": self.path}).encode()
        if self.path.endswith("/text"):
            body = b"no json"
        self.send_response(404 if "absent" in self.path else 200)
        if self.path == "/_ping":
            for name, value in self.ping_headers.items():
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(path: Path, *, delay: float = 0.0, **headers: str) -> Iterator[str]:
    names = {name.replace("_", "-"): value for name, value in (headers or {"Api_Version": "1.41"}).items()}
    handler = type("ThisHandler", (Handler,), {"ping_headers": names, "delay": delay})
    path.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def home() -> Iterator[Path]:
    """Short, because a Unix socket's path has 108 bytes at most."""
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}


def write_context(home: Path, name: str, host: str, *, current: bool) -> None:
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker/contexts/meta" / identity
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    if current:
        (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


def test_docker_host_is_the_users_word(home: Path, environ: dict[str, str]) -> None:
    with serving(home / "a.sock") as url, serving(home / "run/docker.sock"):
        assert find_engine({**environ, "DOCKER_HOST": url}) == EngineEndpoint(url, "docker")
        assert find_engine({**environ, "DOCKER_HOST": f"unix://{home}/absent.sock"}) is None
        assert find_engine({**environ, "DOCKER_HOST": "ssh://host"}) is None
        assert find_engine({**environ, "DOCKER_HOST": "tcp://[broken"}) is None


def test_the_chosen_context(home: Path, environ: dict[str, str]) -> None:
    with serving(home / "a.sock") as first, serving(home / "b.sock") as second:
        write_context(home, "one", first, current=True)
        write_context(home, "two", second, current=False)
        assert find_engine(environ) == EngineEndpoint(first)
        assert find_engine({**environ, "DOCKER_CONTEXT": "two"}) == EngineEndpoint(second)
        assert find_engine({**environ, "DOCKER_HOST": second}) == EngineEndpoint(second)
    with serving(home / "run/docker.sock"):
        assert find_engine(environ) is None


@pytest.mark.parametrize(
    "text", ["{}", "[]", "broken", '{"currentContext": "default"}', '{"currentContext": "gone"}']
)
def test_no_context(home: Path, environ: dict[str, str], text: str) -> None:
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text(text)
    with serving(home / "run/docker.sock") as url:
        assert find_engine(environ) == EngineEndpoint(url)


@pytest.mark.parametrize(
    "place",
    ["run/docker.sock", ".docker/run/docker.sock", ".docker/desktop/docker.sock", "run/podman/podman.sock"],
)
def test_well_known_sockets(home: Path, environ: dict[str, str], place: str) -> None:
    with serving(home / place) as url:
        assert find_engine(environ) == EngineEndpoint(url)


def test_podman_is_known_by_its_answer(home: Path, environ: dict[str, str]) -> None:
    with serving(home / "run/podman/podman.sock", Api_Version="1.41", Libpod_API_Version="4.3.1") as url:
        assert find_engine(environ) == EngineEndpoint(url, "podman")


def test_what_is_no_engine(home: Path, environ: dict[str, str]) -> None:
    with serving(home / "run/docker.sock", Server="nginx"), serving(home / "run/podman/podman.sock") as url:
        assert find_engine(environ) == EngineEndpoint(url)


def test_a_silent_engine_costs_a_second(home: Path, environ: dict[str, str]) -> None:
    with serving(home / "run/docker.sock", delay=3) as url:
        started = time.monotonic()
        assert find_engine({**environ, "DOCKER_HOST": url}) is None
        assert 0.9 < time.monotonic() - started < 2


def test_over_tcp(environ: dict[str, str]) -> None:
    handler = type("ThisHandler", (Handler,), {"ping_headers": {"Api-Version": "1.41"}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"tcp://127.0.0.1:{server.server_port}"
        try:
            assert find_engine({**environ, "DOCKER_HOST": url}) == EngineEndpoint(url)
        finally:
            server.shutdown()
            thread.join()


def test_requests(home: Path) -> None:
    with serving(home / "a.sock") as url:
        endpoint = EngineEndpoint(url)
        answer = endpoint.request("GET", "/images/x/json")
        assert (answer.status, answer.json()) == (200, {"path": "/v1.41/images/x/json"})
        assert endpoint.request("GET", "/absent").status == 404
        with pytest.raises(SandboxError, match="no JSON"):
            endpoint.request("GET", "/text").json()
    with pytest.raises(SandboxError, match=f"unix://{home}/a.sock: the container engine does not answer"):
        endpoint.request("GET", "/images/x/json")


def test_tls_material_that_is_not_there(environ: dict[str, str], home: Path) -> None:
    with_tls = {"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(home)}
    assert find_engine({**environ, **with_tls}) is None


def test_no_docker_library_is_imported() -> None:
    code = "import sys, lockbuild.transport.engine; print(sorted({'docker', 'requests', 'ssl'} & set(sys.modules)))"
    said = subprocess.check_output([sys.executable, "-c", code], env={**os.environ}, text=True)
    assert "docker" not in said
    assert "requests" not in said
