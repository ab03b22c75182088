"""The command line: parses, draws progress, prints results, chooses the exit status. Nothing else does."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from lockbuild.errors import ExitStatus, LockbuildError

__all__ = ["main"]

_BUG = 70  # EX_SOFTWARE of sysexits.h


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status (`lockbuild.errors.ExitStatus`). Without ``argv`` it is that of this process."""
    if argv is not None:
        return _main(argv)
    # All three only to start and end sooner: what importing makes is no garbage, our models have no plugins to
    # look for, and a process that ends need not collect.
    gc.set_threshold(50_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        return _main(sys.argv[1:])
    finally:
        gc.freeze()


def _main(argv: Sequence[str]) -> int:
    from lockbuild.cli.arguments import parse
    from lockbuild.cli.result import print_error

    arguments = parse(argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from lockbuild.cli.commands import run

        return int(run(arguments))
    except LockbuildError as error:
        print_error(error, as_json=arguments.json)
        return int(error.status)
    except BrokenPipeError:
        # Whoever read our output has enough of it; do not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitStatus.OK)
    except OSError as error:
        print_error(_system_error(error), as_json=arguments.json)
        return int(ExitStatus.FETCH if error.errno in (errno.ENOSPC, errno.EDQUOT) else ExitStatus.USAGE)
    except KeyboardInterrupt:
        print_error(LockbuildError("interrupted"), as_json=arguments.json)
        return int(ExitStatus.INTERRUPTED)
    except Exception:
        import traceback

        traceback.print_exc()
        sys.stderr.write("error: this is a fault in lockbuild; please report it with the lines above\n")
        return _BUG


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends as Ctrl-C does: sandboxes are closed and scratch directories removed on the way out."""
    raise KeyboardInterrupt


def _system_error(error: OSError) -> LockbuildError:
    hint = None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or use another store with --store DIR; what was downloaded is kept"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "choose a place that you may write to (--store DIR, -o DIR)"
    on = os.fspath(error.filename) if error.filename is not None else None
    return LockbuildError(error.strerror or str(error), on=on if isinstance(on, str) else None, hint=hint)
