"""Running a plan in a sandbox session: steps in order, their output to the log and the reporter."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from lockbuild.build.diagnose import diagnose
from lockbuild.build.plan import Plan
from lockbuild.errors import BuildError
from lockbuild.events import Note, Output, Reporter
from lockbuild.sandbox.backend import Session

_TAIL_BYTES = 64 * 1024


def run_steps(plan: Plan, session: Session, log: BinaryIO, *, report: Reporter) -> None:
    """Run every step; BuildError at the first that fails, with its number, status and a hint where known."""
    for number, step in enumerate(plan.steps, start=1):
        tail = _Tail()

        def output(data: bytes, tail: _Tail = tail) -> None:
            log.write(data)
            tail.add(data)
            report(Output(data))

        log.write(f"$ {step}\n".encode())
        report(Note(f"{plan.name} [{number}/{len(plan.steps)}] {step}"))
        status = session.run(
            ["/bin/sh", "-e", "-c", step], cwd=plan.directory, variables=plan.variables, output=output
        )
        log.flush()
        if status != 0:
            raise BuildError(
                f"step {number} of {len(plan.steps)} failed with status {status}: {step}",
                on=plan.name,
                hint=diagnose(tail.text(), status),
            )


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
