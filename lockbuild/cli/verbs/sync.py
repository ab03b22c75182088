"""``lockbuild sync``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer


def define(commands: Commands) -> None:
    """Its grammar."""
    commands.add("sync", "make the lock real: fetch, verify, materialise, and load the image into an engine")


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.ready import sync_summary

    summary = sync_summary(call.workspace, call.paths())
    call.progress.close()
    _print_synced(call.printer, summary)
    return ExitStatus.OK


def _print_synced(printer: Printer, summary: Mapping[str, Any]) -> None:
    """What a sync made (`lockbuild.workflow.sync.Synced.summary`)."""
    made = f"made {', '.join(summary['made'])}" if summary["made"] else "nothing to do"
    printer.say(summary, f"{summary['platform']} {summary['image']}: {made}", reassurance=True)
