"""An interruption waits for the end of a start, and is not lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lockbuild.interrupts import deferred


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_comes_at_the_end(number: signal.Signals) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    reached = False

    def start() -> None:
        nonlocal reached
        with deferred():
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            reached = True

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    assert reached


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone() -> None:
    done = []

    def work() -> None:
        with deferred():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


def test_an_error_of_the_start_is_not_hidden_without_one() -> None:
    with pytest.raises(ValueError, match="start"), deferred():
        raise ValueError("start")
