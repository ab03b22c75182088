"""Progress on stderr: bars with bytes, rate and time left on a terminal, plain lines elsewhere.

Only this module turns events into text. It is called from several threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from lockbuild.amounts import amount
from lockbuild.escaping import one_line, plain
from lockbuild.events import Advanced, Event, Finished, Note, Output, Started

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_PLAIN_INTERVAL = 10.0
"""Seconds between lines about one long task where there is no terminal."""


class Progress:
    """A reporter. Bars appear with the first task, so that a command with nothing to do imports nothing."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._lock = threading.RLock()
        self._terminal = sys.stderr.isatty() and not quiet and os.environ.get("TERM") != "dumb"
        self._bars: Bars | None = None
        self._rows: dict[str, TaskID] = {}
        # Several requests read one suite: what is to be said of it is said once.
        self._warned: set[str] = set()
        self._plain: dict[str, _PlainTask] = {}
        self._output: Callable[[bytes], None] | None = None if quiet else _to_stderr

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, event: Event) -> None:
        """Take an event of the core."""
        with self._lock:
            match event:
                case Output(data):
                    self._write(data)
                case Note(message, level):
                    self._note(message, level)
                case Started():
                    self._started(event)
                case Advanced(key, amount):
                    self._advanced(key, amount)
                case Finished(key):
                    self._finished(key)

    def outputs_to(self, write: Callable[[bytes], None]) -> None:
        """Give the output of what runs in the sandbox to ``write``, as it is."""
        self._output = write

    def close(self) -> None:
        """Take the bars away; what comes afterwards may print."""
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
                self._bars = None
                self._rows.clear()

    def _write(self, data: bytes) -> None:
        if self._output is None:
            return
        self.close()
        self._output(data)

    def _note(self, message: str, level: str) -> None:
        if (self._quiet and level != "warning") or (level == "debug" and not self._verbose):
            return
        if level == "warning":
            if message in self._warned:
                return
            self._warned.add(message)
        text = plain(f"warning: {message}" if level == "warning" else message)
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _started(self, event: Started) -> None:
        if self._quiet:
            return
        if not self._terminal:
            self._plain[event.key] = _PlainTask(
                one_line(event.label), event.total, event.unit, time.monotonic()
            )
            return
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        # Hundreds of files come and go: a row for each that is under way, gone when it ends.
        self._rows[event.key] = self._bars.add_task(one_line(event.label), total=event.total)

    def _advanced(self, key: str, amount: int) -> None:
        if self._bars is not None and key in self._rows:
            self._bars.advance(self._rows[key], amount)
        elif key in self._plain:
            line = self._plain[key].advance(amount, time.monotonic())
            if line:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()

    def _finished(self, key: str) -> None:
        if self._bars is not None and key in self._rows:
            self._bars.remove_task(self._rows.pop(key))
        self._plain.pop(key, None)


def _to_stderr(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


class _PlainTask:
    """A task as lines: one now and then, only for those that are long."""

    def __init__(self, label: str, total: int | None, unit: str, now: float) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self.began = self.said = now

    def advance(self, amount: int, now: float) -> str | None:
        self.done += amount
        if now - self.said < _PLAIN_INTERVAL:
            return None
        self.said = now
        rate = self.done / (now - self.began)
        amounts = _amount(self.done, self.unit)
        if not self.total:
            return f"{self.label}: {amounts}, {_amount(rate, self.unit)}/s"
        left = (self.total - self.done) / rate if rate > 0 else 0
        return (
            f"{self.label}: {amounts} of {_amount(self.total, self.unit)}, "
            f"{_amount(rate, self.unit)}/s, {left:.0f} s left"
        )


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f}" if unit == "items" else amount(value)


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
