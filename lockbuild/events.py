"""Progress as values. The core reports them and never prints; the command line draws them.

A piece of long work is a *task*: it starts with what is known of its size, advances, and ends.
Several run at once, from several threads: a reporter must be thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Started:
    """A task begins. ``total`` is in ``unit`` where it is known; ``key`` names the task uniquely."""

    key: str
    label: str
    total: int | None = None
    unit: Literal["bytes", "items"] = "bytes"


@dataclass(frozen=True, slots=True)
class Advanced:
    """A task has come ``amount`` further (negative where work is thrown away and begun again)."""

    key: str
    amount: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A task ended, well or badly."""

    key: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know: ``info`` at normal verbosity, ``debug`` with -v, ``warning`` always."""

    message: str
    level: Literal["debug", "info", "warning"] = "info"


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes that a build step wrote."""

    data: bytes


Event = Started | Advanced | Finished | Note | Output
Reporter = Callable[[Event], None]


def silent(event: Event) -> None:
    """A reporter that drops everything."""
