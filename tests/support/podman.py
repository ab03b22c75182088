"""Podman's Docker-compatible socket for tests: a service of their own, with its own storage."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockbuild.transport.engine import EngineEndpoint, find_engine

_START_SECONDS = 60


@contextmanager
def podman_storage() -> Iterator[tuple[Path, list[str]]]:
    """A directory that is gone afterwards, and the ``podman`` command that keeps everything there."""
    # Not pytest's tmp_path: podman takes 50 characters for its --runroot, and a Unix socket's path has 108 bytes.
    directory = Path(tempfile.mkdtemp(prefix="lb-podman-"))
    try:
        yield (
            directory,
            [
                "podman",
                *("--root", f"{directory}/root", "--runroot", f"{directory}/run"),
                *("--tmpdir", f"{directory}/tmp", "--storage-driver", "vfs"),
                *("--cgroup-manager", "cgroupfs", "--events-backend", "none"),
            ],
        )
    finally:
        shutil.rmtree(directory)


@contextmanager
def private_podman() -> Iterator[EngineEndpoint]:
    """Start ``podman system service``, and end it by its process id with everything it made."""
    with podman_storage() as (directory, podman):
        socket = directory / "podman.sock"
        command = [*podman, "system", "service", "--time", "0", f"unix://{socket}"]
        log, settings = directory / "log", directory / "containers.conf"
        # Its own limits may be more than this machine lets root have; then no container starts.
        settings.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n')
        with log.open("wb") as stream:
            service = subprocess.Popen(
                command,
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "CONTAINERS_CONF": str(settings)},
            )
        try:
            environ = {"DOCKER_HOST": f"unix://{socket}"}
            limit = time.monotonic() + _START_SECONDS
            while (endpoint := find_engine(environ) if socket.exists() else None) is None:
                if service.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"podman's service did not start:\n{log.read_text()[-4000:]}")
                time.sleep(0.05)
            yield endpoint
        finally:
            service.terminate()
            service.wait(30)


@pytest.fixture(scope="session")
def podman() -> Iterator[EngineEndpoint]:
    """One service for all tests of a run (of each worker), started when the first one needs it."""
    with private_podman() as endpoint:
        yield endpoint
