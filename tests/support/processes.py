"""lockbuild as a process that a test starts, watches, interrupts and kills; and what such a one leaves behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.tiny import TinyWorld

_MARK = "LOCKBUILD_TEST_MARK"


class Running:
    """A command that runs. Every process that it starts can be found by ``mark``: it stands in the environment of
    its own helpers, and steps that a test writes have it in their text."""

    def __init__(
        self, world: TinyWorld, *arguments: str | Path, mark: str = "", backend: str = "bubblewrap"
    ) -> None:
        self.mark = mark or secrets.token_hex(8)
        common = ("--project", world.project, "--store", world.store, "--backend", backend)
        self.process = subprocess.Popen(
            [world.process_environ["PYTHON"], "-m", "lockbuild", *map(str, (*common, *arguments))],
            env={**world.process_environ, _MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said = bytearray()
        self.printed = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self._said += chunk

    @property
    def said(self) -> str:
        """What it wrote to stderr so far."""
        return self._said.decode("utf-8", "replace")

    def wait_until_it_says(self, text: str, seconds: float = 60) -> None:
        """AssertionError where it ends or the time does."""
        limit = time.monotonic() + seconds
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < limit, self.said
            time.sleep(0.005)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal: to it alone, or as a terminal does to all of its group."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        """Its exit status."""
        status = self.process.wait(seconds)
        self._reading.join(seconds)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        if not self.process.stdout.closed:
            self.printed = self.process.stdout.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def processes(self) -> list[str]:
        """The command lines of all processes of its."""
        return list(_marked(self.mark))

    def survivors(self, seconds: float = 5) -> list[str]:
        """The command lines of processes of its that still live, after giving them this time to end."""
        limit = time.monotonic() + seconds
        while found := self.processes():
            if time.monotonic() > limit:
                return found
            time.sleep(0.01)
        return []


@contextmanager
def running(
    world: TinyWorld, *arguments: str | Path, mark: str = "", backend: str = "bubblewrap"
) -> Iterator[Running]:
    """Start it; whatever happens it has ended afterwards."""
    command = Running(world, *arguments, mark=mark, backend=backend)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.signal(signal.SIGKILL)
        command.wait()


def _marked(mark: str) -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if mark.encode() in command or mark.encode() in (entry / "environ").read_bytes():
                yield f"{entry.name}: {command.decode(errors='replace')}"
        except OSError:
            continue


def left_behind(store: Path) -> list[Path]:
    """Scratch directories and started downloads in a store."""
    return [
        *store.glob("tmp/*"),
        *store.glob("partial/*"),
        *store.glob("work/sandbox-*"),
        *store.glob("work/new-*"),
    ]


def mounts_below(directory: Path) -> list[str]:
    """What is mounted below it, as this process sees it."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(directory) in line]
