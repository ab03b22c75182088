"""The real back-ends as fixtures, each with a small real environment."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lockbuild.events import silent
from lockbuild.model.environment import SandboxSpec
from lockbuild.oci.image import compute
from lockbuild.oci.load import ensure_loaded
from lockbuild.sandbox.backend import Backend, Session
from lockbuild.sandbox.bubblewrap import Bubblewrap
from lockbuild.sandbox.docker import Docker
from tests.support.busybox import make_spec
from tests.support.engine import PrivateEngine


@dataclass(frozen=True)
class Sandbox:
    """A back-end and a spec that it can run."""

    backend: Backend
    spec: SandboxSpec


@pytest.fixture(scope="session")
def busybox_spec() -> Iterator[SandboxSpec]:
    """The spec; its files can be read by everybody, unlike pytest's own directories."""
    directory = Path(tempfile.mkdtemp(prefix="lb-busybox-"))
    directory.chmod(0o755)
    yield make_spec(directory)
    shutil.rmtree(directory)


@pytest.fixture
def bubblewrap(busybox_spec: SandboxSpec, tmp_path: Path) -> Sandbox:
    return Sandbox(Bubblewrap(tmp_path / "scratch"), busybox_spec)


@pytest.fixture
def docker(busybox_spec: SandboxSpec, engine: PrivateEngine) -> Sandbox:
    image = compute(busybox_spec.environment, labels={})
    identity = ensure_loaded(image, busybox_spec.environment, engine.endpoint, silent)
    return Sandbox(Docker({}, endpoint=engine.endpoint), replace(busybox_spec, image=identity))


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each isolating back-end in turn."""
    chosen: Sandbox = request.getfixturevalue(request.param)
    return chosen


def shell(
    session: Session, script: str, *, cwd: str = "/build/build", variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run ``script``: its exit status and what it wrote."""
    said = bytearray()
    status = session.run(["sh", "-c", script], cwd=cwd, variables=variables or {}, output=said.extend)
    return status, said.decode()


def unique_sleep() -> str:
    """The argument of a long ``sleep`` that no other process has."""
    return f"{100000 + secrets.randbelow(10**9)}"


def processes_with(argument: str) -> list[int]:
    """Processes of this machine (so also those in sandboxes) with that argument."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argument.encode() in words:
                found.append(int(process.name))
    return found


def wait_until(condition: object, seconds: float = 15) -> None:
    """Wait until the function is true; AssertionError where it does not become so."""
    assert callable(condition)
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
