"""``lockbuild doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.workflow.doctor import Diagnosis


def define(commands: Commands) -> None:
    """Its grammar."""
    commands.add(
        "doctor", "look at what lockbuild needs on this machine, and say what to do where it is not so"
    )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.doctor import diagnose

    try:
        directory = call.paths().directory
    except UsageError:
        if call.arguments.project is not None:
            raise
        directory = None
    diagnosis = diagnose(call.workspace, directory)
    call.progress.close()
    _print_diagnosis(call.printer, diagnosis, quiet=call.arguments.quiet)
    return diagnosis.status


def _print_diagnosis(printer: Printer, diagnosis: Diagnosis, *, quiet: bool) -> None:
    """Each finding, and its remedy; ``quiet`` leaves out what is well."""
    shown = [found for found in diagnosis.findings if not quiet or found.level != "ok"]
    width = max((len(found.check) for found in shown), default=0)
    lines = []
    for found in shown:
        subject = f"{found.subject}: " if found.subject else ""
        margin = f"{'':<7}  {'':<{width}}  "
        message = found.message.replace("\n", f"\n{margin}")
        lines.append(f"{found.level:<7}  {found.check:<{width}}  {subject}{message}")
        if found.remedy:
            lines.append(f"{margin}hint: {found.remedy}")
    value = {
        "status": int(diagnosis.status),
        "seconds": round(diagnosis.seconds, 3),
        "findings": [
            {
                "check": found.check,
                "level": found.level,
                "subject": found.subject,
                "message": found.message,
                "remedy": found.remedy,
                "seconds": found.seconds,
            }
            for found in diagnosis.findings
        ],
    }
    printer.say(value, "\n".join(lines), reassurance=not lines)
