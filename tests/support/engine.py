"""A Docker engine for tests: a dockerd of their own, with its own socket, data and processes.

Never the machine's engine: tests load and remove images, and must see nothing of anybody else's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.transport.engine import EngineEndpoint, find_engine

START_SECONDS = 60


@dataclass(frozen=True)
class PrivateEngine:
    """A running dockerd below ``directory``; ``pid`` is its process."""

    directory: Path
    pid: int

    @property
    def url(self) -> str:
        return f"unix://{self.directory}/docker.sock"

    @property
    def endpoint(self) -> EngineEndpoint:
        endpoint = find_engine(self.environ)
        assert endpoint is not None, "the engine does not answer any more"
        return endpoint

    @property
    def environ(self) -> dict[str, str]:
        """What makes lockbuild and the docker command use it."""
        return {"DOCKER_HOST": self.url}

    def open_to_all(self) -> None:
        """Let every user of this machine speak to it."""
        self.directory.chmod(0o711)
        (self.directory / "docker.sock").chmod(0o666)


@contextmanager
def private_engine(*options: str) -> Iterator[PrivateEngine]:
    """Start a dockerd (root is needed), and end it by its process id with everything it made."""
    # Not pytest's tmp_path: a Unix socket's path has 108 bytes at most.
    directory = Path(tempfile.mkdtemp(prefix="lb-engine-"))
    try:
        log = directory / "log"
        with log.open("wb") as stream:
            daemon = subprocess.Popen(
                [
                    "dockerd",
                    *("-H", f"unix://{directory}/docker.sock", "--pidfile", f"{directory}/pid"),
                    *("--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"),
                    *("--bridge=none", "--iptables=false", "--ip6tables=false", *options),
                ],
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            engine = PrivateEngine(directory, daemon.pid)
            limit = time.monotonic() + START_SECONDS
            while find_engine(engine.environ) is None:
                if daemon.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"dockerd did not start:\n{log.read_text()[-4000:]}")
                time.sleep(0.05)
            yield engine
        finally:
            _end(daemon, directory)
    finally:
        _unmount(directory)
        shutil.rmtree(directory)


def _end(daemon: subprocess.Popen[bytes], directory: Path) -> None:
    children = _descendants(daemon.pid) | _with_directory(directory)
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(30)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    limit = time.monotonic() + 10
    for pid in children | _with_directory(directory):
        while Path(f"/proc/{pid}").exists():
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)
                limit += 1
            time.sleep(0.02)


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {child} | _descendants(child)
    return found


def _with_directory(directory: Path) -> set[int]:
    """Processes (containerd's shims) that name our directory on their command line."""
    needle = os.fsencode(directory)
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if needle + b"/exec" in line and b"containerd" in line:
                found.add(int(process.name))
    return found


def _unmount(directory: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted(mounts, reverse=True):
        if mount.startswith(f"{directory}/"):
            subprocess.run(["umount", "-l", mount], check=False)


@pytest.fixture(scope="session")
def engine() -> Iterator[PrivateEngine]:
    """One engine for all tests of a run (of each worker), started when the first one needs it."""
    with private_engine() as running:
        yield running
