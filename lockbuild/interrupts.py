"""Work that no interruption may come into the middle of: starting processes, and putting away what was made.

An exception from a signal handler can be raised anywhere, also between fork(2) and the assignment of its result: then
nobody would end the process that was started. And it can be raised where the last exception just began to be answered.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred() -> Iterator[None]:
    """What the handlers of SIGINT, SIGTERM and SIGALRM raise is raised at the end of the block. They run at once
    nevertheless, so that one may end the process if the block takes too long."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    usual: dict[int, Callable[[int, FrameType | None], object]] = {}
    raised: list[BaseException] = []
    holding = True

    def hold(number: int, frame: FrameType | None) -> None:
        try:
            usual[number](number, frame)
        except BaseException as error:
            if not holding:
                raise
            raised.append(error)

    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            handler = signal.getsignal(number)
            if callable(handler):
                usual[number] = handler
                signal.signal(number, hold)
        yield
    finally:
        holding = False
        for known, handler in usual.items():
            signal.signal(known, handler)
        if raised:
            raise raised[0]


def completed(work: Callable[[], None]) -> None:
    """Do ``work``, and be interrupted only when it is done. It may be begun twice: the second time it goes on.

    For the end of a block. An interruption can come just before it is deferred; another one does not.
    """
    try:
        with deferred():
            work()
    except KeyboardInterrupt:
        with deferred():
            work()
        raise


@contextmanager
def left_to_another() -> Iterator[None]:
    """Do nothing about SIGINT and SIGQUIT, which a terminal sends to all: the process that has it decides."""
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        for number, handler in usual.items():
            if handler is not signal.SIG_IGN:
                # Not ignored: who is started now would ignore them, too.
                signal.signal(number, lambda *_: None)
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
