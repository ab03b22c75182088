"""Starting processes so that no interruption can come between their start and our knowing them.

An exception from a signal handler can be raised anywhere, also between fork(2) and the assignment of its result: then
nobody would end the process that was started.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred() -> Iterator[None]:
    """What SIGINT and SIGTERM do is done at the end of the block. Keep it short: a start, not a wait."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    usual = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))
    }
    for number in usual:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        for came_number, frame in came[:1]:
            usual[signal.Signals(came_number)](came_number, frame)
