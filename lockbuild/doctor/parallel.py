"""Looking at many things at once, with an end to it: what hangs is left behind and not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that raised ``error``, or was not done in time (None)."""

    error: Exception | None


@dataclass
class _Slot(Generic[T]):
    result: T | Failed


def in_parallel(tasks: Sequence[Callable[[], T]], deadline: float) -> list[T | Failed]:
    """What each task gives, in their order; at ``deadline`` (time.monotonic()) it returns with what there is.

    A thread for each, which does not keep the process from ending.
    """
    slots: list[_Slot[T]] = [_Slot(Failed(None)) for _ in tasks]

    def run(task: Callable[[], T], slot: _Slot[T]) -> None:
        try:
            slot.result = task()
        except Exception as error:  # whatever it is, it is told as a finding
            slot.result = Failed(error)

    threads = [
        threading.Thread(target=run, args=(task, slot), daemon=True)
        for task, slot in zip(tasks, slots, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [slot.result for slot in slots]
