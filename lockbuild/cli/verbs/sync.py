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
    from lockbuild.workflow.noop import file_digests, stamped_sync, write_stamp

    paths = call.paths()
    known = stamped_sync(call.workspace, paths)
    if known is not None:
        _print_synced(call.printer, known)
        return ExitStatus.OK
    from lockbuild.workflow.project import load_lock, load_project, require_current
    from lockbuild.workflow.sync import sync

    project = load_project(paths)
    lock = load_lock(paths)
    require_current(project, lock)
    files = file_digests(project.files)
    result = sync(call.workspace, project, lock, call.workspace.platform).summary()
    if not any(tree.unpack == "path" for tree in lock.trees):
        write_stamp(paths, files, synced=result)
    call.progress.close()
    _print_synced(call.printer, result)
    return ExitStatus.OK


def _print_synced(printer: Printer, summary: Mapping[str, Any]) -> None:
    """What a sync made (`lockbuild.workflow.sync.Synced.summary`)."""
    made = f"made {', '.join(summary['made'])}" if summary["made"] else "nothing to do"
    printer.say(summary, f"{summary['platform']} {summary['image']}: {made}", reassurance=True)
