"""``lockbuild serve``: a read-only mirror out of the store, over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.amounts import count
from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.workflow.serve import Serving


def define(commands: Commands) -> None:
    """Its grammar."""
    serve = commands.add(
        "serve", "serve what known locks name to other machines, read-only, until interrupted"
    )
    serve.add_argument(
        "--bind", default="", metavar="ADDR:PORT", help="where to listen (default: 127.0.0.1:8417)"
    )
    serve.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="certificate with its chain (PEM): HTTPS"
    )
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM), where that file lacks it")
    serve.add_argument(
        "--lock",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="serve what this lock names, too; may be given several times",
    )
    serve.add_argument(
        "--only",
        action="store_true",
        help="serve for the locks of --lock and --project only, not for all that were synced with the store",
    )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.serve import parse_bind, serve

    arguments = call.arguments
    if arguments.tls_key is not None and arguments.tls_cert is None:
        raise UsageError("a key needs its certificate", on="--tls-key", hint="name it with --tls-cert FILE")
    tls = None if arguments.tls_cert is None else (arguments.tls_cert, arguments.tls_key)
    serve(
        call.workspace,
        bind=parse_bind(arguments.bind or ":8417"),
        locks=_locks(call),
        only=arguments.only,
        tls=tls,
        ready=lambda serving: _print(call, serving),
    )
    return ExitStatus.OK


def _locks(call: Call) -> list[Path]:
    """Those that are named, and that of the project, where there is one."""
    locks = list(call.arguments.lock)
    try:
        paths = call.paths()
    except UsageError:
        if call.arguments.project is not None:
            raise
        return locks
    if paths.lock.exists() or call.arguments.project is not None:
        locks.append(paths.lock)
    return locks


def _print(call: Call, serving: Serving) -> None:
    """Where it answers."""
    library = serving.library
    value = {
        "url": serving.url,
        "locks": [{"name": known.name, "sources": len(known.lock.sources)} for known in library.locks],
        "files": len(library.by_sha256),
        "missing": serving.missing,
    }
    names = ", ".join(known.name for known in library.locks)
    lacking = f" ({serving.missing} of them not in the store)" if serving.missing else ""
    call.printer.say(
        value, f"{serving.url}/ serves {names}: {count(len(library.by_sha256), 'file')}{lacking}"
    )
    sys.stdout.flush()
