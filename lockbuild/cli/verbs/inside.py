"""``lockbuild run`` and ``lockbuild shell``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lockbuild.errors import UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands


def define(commands: Commands) -> None:
    """Its grammar."""
    for name, text in (
        ("run", "run a command inside the environment: lockbuild run CMD…"),
        ("shell", "open a shell inside the environment"),
    ):
        inside = commands.add(name, text)
        inside.add_argument(
            "--target", metavar="TARGET", help="whose source and variables (default: the only one)"
        )
        inside.add_argument(
            "--failed", action="store_true", help="start in the last failed build's directory"
        )
        if name == "run":
            inside.add_argument(
                "argv",
                nargs=argparse.REMAINDER,
                metavar="CMD",
                help="the command and its arguments, after the options; -- may stand before it",
            )


def run(call: Call) -> int:
    """Run it; the exit status."""
    import signal
    import sys

    from lockbuild.cli.streams import OutputLost, pass_on, reader_is_gone
    from lockbuild.errors import ExitStatus
    from lockbuild.workflow.run import run_command

    shell = call.arguments.command == "shell"
    command = ["/bin/bash", "--norc"] if shell else _command(call.arguments.argv)
    call.progress.outputs_to(pass_on)
    try:
        return run_command(
            call.workspace,
            call.paths(),
            call.arguments.target,
            command,
            interactive=shell or (sys.stdin.isatty() and sys.stdout.isatty()),
            failed=call.arguments.failed,
        )
    except OutputLost:
        # As if what runs had written there itself.
        return 128 + signal.SIGPIPE if reader_is_gone() else ExitStatus.FETCH


def _command(words: list[str]) -> list[str]:
    """What stands after the options of ``lockbuild run``: all of it is the command's."""
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        raise UsageError(
            "name the command to run", hint="as in `lockbuild run --target NAME -- sh -c 'id; ls /opt'`"
        )
    return command
