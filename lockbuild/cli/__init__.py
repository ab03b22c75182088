"""The command line: parses, draws progress, prints results, chooses the exit status. Nothing else does."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence

from lockbuild.cli.signals import Signals
from lockbuild.cli.streams import lost, open_streams, reader_is_gone
from lockbuild.errors import ExitStatus, LockbuildError

__all__ = ["main"]

_BUG = 70  # EX_SOFTWARE of sysexits.h


def main() -> int:
    """Run the command of this process's arguments; the exit status (`lockbuild.errors.ExitStatus`)."""
    # All three only to start and end sooner: what importing makes is no garbage, our models have no plugins to
    # look for, and a process that ends need not collect.
    gc.set_threshold(50_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    open_streams()
    signals = Signals()
    try:
        signals.listen()
        try:
            return _ended(_main(sys.argv[1:], signals))
        finally:
            gc.freeze()
            signals.leave()
    except KeyboardInterrupt:  # before there was a command, or while its result was told
        return _told(_InterruptedError("interrupted"), as_json=False)


def _main(argv: Sequence[str], signals: Signals) -> int:
    from lockbuild.cli.arguments import parse

    try:
        arguments = parse(argv)
    except SystemExit as end:  # what argparse does: help and version are told, or what is wrong is
        return int(end.code or 0)
    try:
        from lockbuild.cli.call import run

        return int(run(arguments))
    except KeyboardInterrupt:
        return _told(_InterruptedError("interrupted"), as_json=arguments.json)
    except Exception as error:
        if signals.came:  # libraries that are interrupted while they call us back make other errors of that
            return _told(_InterruptedError("interrupted"), as_json=arguments.json)
        return _failed(error, as_json=arguments.json)


def _failed(error: Exception, *, as_json: bool) -> int:
    """Tell what went wrong; the exit status."""
    if isinstance(error, LockbuildError):
        return _told(error, as_json=as_json)
    if isinstance(error, OSError):
        return _told(_system_error(error), as_json=as_json)
    import traceback

    traceback.print_exception(error)
    sys.stderr.write("error: this is a fault in lockbuild; please report it with the lines above\n")
    return _BUG


def _ended(status: int) -> int:
    """The exit status of a command that ended with ``status``, now that all of its result is written, or is not."""
    error = lost()
    if error is None or reader_is_gone():
        return status
    reason = error.strerror or str(error)
    told = LockbuildError(
        f"the result cannot be written to standard output: {reason}",
        hint="run it again with a standard output that takes it",
    )
    _told(told, as_json=False)
    return status or int(ExitStatus.FETCH)


class _InterruptedError(LockbuildError):
    status = ExitStatus.INTERRUPTED


class _StorageError(LockbuildError):
    status = ExitStatus.FETCH


def _told(error: LockbuildError, *, as_json: bool) -> int:
    """Print it; the exit status."""
    from lockbuild.cli.result import print_error

    print_error(error, as_json=as_json)
    return int(error.status)


def _system_error(error: OSError) -> LockbuildError:
    if error.errno == errno.ENOENT and error.filename is None and not _has_working_directory():
        return LockbuildError(
            "the working directory is not there any more", hint="change into another one (cd)"
        )
    hint = None
    kind = _StorageError if error.errno in (errno.ENOSPC, errno.EDQUOT) else LockbuildError
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or use another store with --store DIR; what was downloaded is kept"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "choose a place that you may write to (--store DIR, -o DIR)"
    on = os.fspath(error.filename) if error.filename is not None else None
    return kind(error.strerror or str(error), on=on if isinstance(on, str) else None, hint=hint)


def _has_working_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return False
    return True
