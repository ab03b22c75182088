"""A site behind a firewall: a network namespace of its own, where every attempt to connect is recorded."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import python_path

_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Site:
    """``namespace`` is the name of its network namespace, ``record`` the file of its recorder."""

    namespace: str
    record: Path

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be inside: this thread, the threads and processes that it starts meanwhile, and what they listen on."""
        with (
            _network(Path("/proc/thread-self/ns/net")) as outside,
            _network(_NAMESPACES / self.namespace) as here,
        ):
            _enter(here)
            try:
                yield
            finally:
                _enter(outside)

    @property
    def attempts(self) -> set[str]:
        """Where anybody inside tried to connect to: ``tcp 127.0.0.1 5000``."""
        return set(self.record.read_text(encoding="ascii").splitlines())


@contextmanager
def site(directory: Path) -> Iterator[Site]:
    """Make a site, whose record is below ``directory``; afterwards the namespace is gone with all that it had."""
    name = f"lb-{secrets.token_hex(4)}"
    made = Site(name, directory / f"{name}.attempts")
    made.record.touch()
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with made.inside():
            recorder = subprocess.Popen(
                [sys.executable, "-m", "tests.support.packets", str(made.record)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **python_path()},
            )
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        try:
            assert recorder.stdout.readline() == b"ready\n"
            yield made
        finally:
            recorder.stdin.close()
            recorder.wait(10)
            recorder.stdout.close()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextmanager
def _network(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(namespace: int) -> None:
    """setns(2), which os has since Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
