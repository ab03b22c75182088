"""Running a plan in a sandbox session: steps in order, their output to the log and the reporter."""

from __future__ import annotations

import signal
from collections import deque
from io import RawIOBase

from lockbuild.build.diagnose import diagnose
from lockbuild.build.plan import Plan
from lockbuild.errors import BuildError
from lockbuild.escaping import one_line
from lockbuild.events import Note, Output, Reporter
from lockbuild.sandbox.backend import Session

_TAIL_BYTES = 64 * 1024
_LONGEST_ARGUMENT = 32 * 4096
"""Bytes of one argument or variable with its final NUL: MAX_ARG_STRLEN."""
_SHOWN = 1000
"""Characters of a step that messages show."""


def run_steps(
    plan: Plan, session: Session, log: RawIOBase, *, report: Reporter, sandboxed: bool = True
) -> None:
    """Run every step; BuildError at the first that fails, with its number, status and a hint where known.

    ``sandboxed`` is whether the session shows the locked environment.
    """
    for number, step in enumerate(plan.steps, start=1):
        tail = _Tail()

        def output(data: bytes, tail: _Tail = tail) -> None:
            log.write(data)
            tail.add(data)
            report(Output(data))

        _check_length(plan, number, step)
        log.write(f"$ {step}\n".encode())
        report(Note(f"{plan.name} [{number}/{len(plan.steps)}] {_shortened(step)}"))
        status = session.run(
            ["/bin/sh", "-e", "-c", step], cwd=plan.directory, variables=plan.variables, output=output
        )
        log.flush()
        if status != 0:
            raise BuildError(
                f"step {number} of {len(plan.steps)} failed with status {_shown(status)}: {_shortened(step)}",
                on=plan.name,
                hint=diagnose(tail.text(), status, step=step, sandboxed=sandboxed),
            )


def _check_length(plan: Plan, number: int, step: str) -> None:
    """BuildError where Linux would not take the step or a variable as an argument: execve(2), E2BIG."""
    words = {f"step {number} of {len(plan.steps)}": step}
    words |= {f"the variable {name}": f"{name}={value}" for name, value in plan.variables.items()}
    for what, word in words.items():
        if len(word.encode()) >= _LONGEST_ARGUMENT:
            raise BuildError(
                f"{what} has {len(word.encode()):,} bytes, and Linux passes no more than {_LONGEST_ARGUMENT - 1:,}",
                on=plan.name,
                hint="put it into a file of the project, as $SOURCE/build.sh, and let a step run that",
            )


def _shown(status: int) -> str:
    """The status, with the signal's name where it stands for one."""
    try:
        return f"{status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return str(status)


def _shortened(step: str) -> str:
    """A step as a message shows it, on one line; the log has all of it as it is."""
    shown = one_line(step.strip())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(step):,} characters)"


class _Tail:
    """The last bytes of a stream, in bounded memory."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._chunks.append(data[-_TAIL_BYTES:])
        self._size += len(self._chunks[-1])
        while self._size - len(self._chunks[0]) >= _TAIL_BYTES:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        return b"".join(self._chunks).decode("utf-8", "replace")
