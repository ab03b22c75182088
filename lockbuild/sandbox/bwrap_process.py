"""Running bwrap, and being sure that everything in its sandbox has ended when it has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase

from lockbuild.errors import SandboxError
from lockbuild.interrupts import deferred
from lockbuild.sandbox.personality import fixed_addresses
from lockbuild.sandbox.pidfd import wait_for_end
from lockbuild.sandbox.terminal import Terminal

_CHUNK = 1 << 16
_TAIL = 2000


def run_process(
    command: list[str], output: Callable[[bytes], None] | None, terminal: Terminal | None = None
) -> int:
    """Run a bwrap ``command``; the exit status of what it ran.

    ``output`` gets both output streams as one; None leaves the caller's streams to the command, but those that are
    terminals become ``terminal``, if there is one.
    SandboxError where bwrap could not make the sandbox.
    """
    status_read, status_write = os.pipe()
    with os.fdopen(status_read, "rb", buffering=0) as status:
        process: subprocess.Popen[bytes] | None = None
        init: int | None = None
        first = said = b""
        try:
            # Until bwrap has told its child there is nothing by which we could end that.
            with deferred():
                try:
                    process = _start(
                        [command[0], "--json-status-fd", str(status_write), *command[1:]],
                        status_write,
                        output,
                        terminal,
                    )
                finally:
                    os.close(status_write)
                first = _first_line(status)
                init = _pidfd(first)
            if process.stdout is not None and output is not None:
                while chunk := os.read(process.stdout.fileno(), _CHUNK):
                    said = (said + chunk)[-_TAIL:]
                    output(chunk)
            elif terminal is not None:
                terminal.pass_on()
            process.wait()
            rest = status.read()
        finally:
            if process is not None:
                with deferred():
                    _end(process, init)
    for line in (first + rest).splitlines():
        exit_code = json.loads(line).get("exit-code")
        if exit_code is not None:
            return int(exit_code)
    why = said.decode("utf-8", "replace").strip() or f"bwrap ended with status {process.returncode}"
    raise SandboxError(f"bubblewrap could not set up the sandbox: {why}")


def _start(
    command: list[str], status: int, output: Callable[[bytes], None] | None, terminal: Terminal | None
) -> subprocess.Popen[bytes]:
    streams: tuple[int | None, int | None, int | None] = (None, None, None)
    if output is not None:
        streams = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
    elif terminal is not None:
        streams = (terminal.follower, terminal.follower, terminal.follower if os.isatty(2) else None)
    root = os.geteuid() == 0
    with fixed_addresses():
        try:
            return subprocess.Popen(
                command,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=(status,),
                cwd="/",
                env={},
                umask=0o022,
                # Root's further groups would show in the sandbox; an ordinary user cannot drop them.
                extra_groups=[] if root else None,
                # Without a terminal of its own an interrupt reaches only us, and we end the sandbox.
                start_new_session=output is not None or terminal is not None,
            )
        except OSError as error:
            raise SandboxError(f"{command[0]} cannot be run: {error.strerror}") from error


def _first_line(status: RawIOBase) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = status.read(1)
        if not byte:
            break
        line += byte
    return line


def _pidfd(line: bytes) -> int | None:
    """A handle on the sandbox's first process: when that has ended, so has every other one in there."""
    if not line:
        return None
    try:
        return os.pidfd_open(int(json.loads(line)["child-pid"]))
    except (OSError, ValueError, KeyError):
        return None


def _end(process: subprocess.Popen[bytes], init: int | None) -> None:
    try:
        if process.poll() is None:
            process.kill()
        if init is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(init, signal.SIGKILL)
            wait_for_end(init)
    finally:
        if init is not None:
            os.close(init)
        if process.stdout is not None:
            process.stdout.close()
        process.wait()
