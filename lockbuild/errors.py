"""What can go wrong, as the user is told it.

There is one root exception. Each instance says *what* failed, on *what* (a file and key, a
URL, a package), and a *hint*: what to do next. Its class decides the process's exit status;
the statuses are documented in ``docs/formats.md`` and scripts rely on them.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from lockbuild.escaping import one_line


class ExitStatus(IntEnum):
    """Exit statuses of every command."""

    OK = 0
    DIFFERENT = 1
    USAGE = 2
    INCONCLUSIVE = 3
    FETCH = 4
    INTEGRITY = 5
    BUILD = 6
    SANDBOX = 7
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class FailedSource:
    """A source that is not to be had: its package URL, its ``size`` in bytes where that is known, and ``what`` is
    wrong: where it would come from, or what each place did."""

    purl: str
    size: int | None
    what: str


class LockbuildError(Exception):
    """The root: ``what`` failed, ``on`` what, and a ``hint`` for the next step.

    ``what`` is one sentence without a full stop; ``on`` names the place (``file: key``, a
    URL without credentials, a package); ``hint`` is an imperative sentence. ``sources`` are
    all that are concerned, where the text may leave some out.
    """

    status: ExitStatus = ExitStatus.USAGE
    sources: tuple[FailedSource, ...] = ()

    def __init__(self, what: str, *, on: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.on = on
        self.hint = hint

    def __str__(self) -> str:
        text = f"{one_line(self.on)}: {self.what}" if self.on else self.what
        return f"{text}\nhint: {self.hint}" if self.hint else text


class UsageError(LockbuildError):
    """The command line, a manifest, a lock or the configuration is not valid (status 2)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a file: the dotted ``key`` (as ``targets.hello.outputs[0]``) and what is wrong there."""

    key: str
    message: str

    def __str__(self) -> str:
        return f"{one_line(self.key)}: {self.message}" if self.key else self.message


class InvalidFileError(UsageError):
    """A file is not valid; carries every problem found in it, not only the first."""

    def __init__(self, file: str, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''}{lines}", on=file, hint=hint)


class StaleLockError(LockbuildError):
    """The lock does not belong to the manifest (status 1); names each key that changed."""

    status = ExitStatus.DIFFERENT


class InconclusiveError(LockbuildError):
    """There is nothing recorded to compare with (status 3)."""

    status = ExitStatus.INCONCLUSIVE


class FetchError(LockbuildError):
    """A source could not be fetched or stored (status 4)."""

    status = ExitStatus.FETCH


class IntegrityError(LockbuildError):
    """Bytes, or a tree or image made from them, do not have the digest they must have (status 5)."""

    status = ExitStatus.INTEGRITY


class ResolveError(LockbuildError):
    """A request has no solution: no such package or version, a conflict (status 2)."""


class BuildError(LockbuildError):
    """A build step failed, or an output is missing (status 6)."""

    status = ExitStatus.BUILD


class SandboxError(LockbuildError):
    """There is no usable sandbox or engine (status 7)."""

    status = ExitStatus.SANDBOX


def storage_error(
    error: OSError,
    what: str,
    *,
    on: str | None = None,
    instead: str = "or name another place with --store DIR",
) -> FetchError:
    """The `FetchError` for an operating system error met while writing; ``what`` did not work.

    Where the place is at fault (full, not writable, not there) the hint says what helps, ``instead`` being the
    other way out.
    """
    reason = error.strerror or str(error)
    hint = None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = f"free some space (`lockbuild store gc` removes what no lock needs), {instead}"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = f"check who owns the directory and whether it is writable, {instead}"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENOLCK):
        hint = f"look at what stands there, {instead}"
    return FetchError(f"{what}: {reason}", on=on, hint=hint)
