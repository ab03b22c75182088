"""Several transfers at once, and the end of all of them when the user wants it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lockbuild.transport.body import Body

T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds that running transfers get to put down what they have when everything is called off."""


class StoppedError(Exception):
    """The transfer was called off; what has come stays for the next run."""


class Transfers:
    """The transfers that are running, so that all can be stopped at once from another thread."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._open: set[Body] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Make every transfer end with StoppedError, also one that waits for bytes."""
        self._stopped.set()
        with self._lock:
            for body in self._open:
                body.abort()

    def check(self) -> None:
        """StoppedError after `stop`."""
        if self._stopped.is_set():
            raise StoppedError

    def pause(self, seconds: float) -> None:
        """Wait, but not past `stop`: then StoppedError."""
        self._stopped.wait(seconds)
        self.check()

    @contextmanager
    def watching(self, body: Body) -> Iterator[Body]:
        """Close ``body`` at the end; let `stop` reach it meanwhile."""
        with self._lock:
            self._open.add(body)
        try:
            with body:
                self.check()
                yield body
        finally:
            with self._lock:
                self._open.discard(body)

    def each(self, items: Iterable[T], work: Callable[[T], None], *, connections: int, name: str) -> None:
        """Do ``work`` for every item, on up to ``connections`` threads; the first exception of one ends all.

        When it is interrupted, all is stopped, and a server that says nothing is not waited for.
        """
        waiting = deque(items)
        broken: list[BaseException] = []
        ended = threading.Semaphore(0)

        def run() -> None:
            try:
                while not self._stopped.is_set():
                    try:
                        item = waiting.popleft()
                    except IndexError:
                        return
                    work(item)
            except StoppedError:
                pass
            except BaseException as error:
                broken.append(error)
                waiting.clear()
                self.stop()
            finally:
                ended.release()

        # Daemons: an interrupted process must not wait for a server that says nothing.
        threads = [
            threading.Thread(target=run, name=f"{name}-{number}", daemon=True)
            for number in range(min(connections, len(waiting)))
        ]
        begun = done = 0
        try:
            for thread in threads:
                thread.start()
                begun += 1
            # Not Thread.join: when that is interrupted, Python before 3.13 takes the thread for ended.
            while done < begun:
                ended.acquire()
                done += 1
        except BaseException:
            waiting.clear()
            self.stop()
            deadline = time.monotonic() + _PATIENCE
            while done < begun and ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
                done += 1
            raise
        if broken:
            raise broken[0]
