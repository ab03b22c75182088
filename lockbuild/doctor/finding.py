"""What a look at one part of the machine found. Nothing secret is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lockbuild.errors import ExitStatus

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: ``check`` names the part, ``subject`` what of it (a URL without credentials, a path, a variable).

    A *problem* is what lockbuild cannot work with here: commands would end with ``status``. A *warning* hinders some
    of what it does. ``remedy`` is what to do; ``seconds`` how long an answer took, where that matters.
    """

    check: str
    level: Level
    message: str
    subject: str | None = None
    remedy: str | None = None
    seconds: float | None = None
    status: ExitStatus = ExitStatus.OK


def ok(check: str, message: str, *, subject: str | None = None, seconds: float | None = None) -> Finding:
    """All is well with it."""
    return Finding(check, "ok", message, subject=subject, seconds=seconds)


def warning(check: str, message: str, *, subject: str | None = None, remedy: str | None = None) -> Finding:
    """It may hinder."""
    return Finding(check, "warning", message, subject=subject, remedy=remedy)


def problem(
    check: str, message: str, *, status: ExitStatus, subject: str | None = None, remedy: str | None = None
) -> Finding:
    """Lockbuild cannot work with it."""
    return Finding(check, "problem", message, subject=subject, remedy=remedy, status=status)
