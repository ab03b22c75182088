"""``lockbuild lock``."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.model.lock import Lock
    from lockbuild.oci.encoders import Compression
    from lockbuild.workflow.changes import PinChange
    from lockbuild.workflow.project import KeyChange, Project
    from lockbuild.workflow.workspace import ProjectPaths

_AGE = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def define(commands: Commands) -> None:
    """Its grammar."""
    lock = commands.add("lock", "resolve the manifest into a lock, keeping pins that need not change")
    lock.add_argument(
        "--materialise", action="store_true", help="also fetch, and write digests of trees and images"
    )
    lock.add_argument(
        "--platform",
        action="append",
        metavar="OS/ARCH",
        help="have the lock for this platform, too; with --materialise, its digests and not this machine's",
    )
    lock.add_argument(
        "--compression",
        metavar="zstd,gzip",
        help="with --materialise: also write the image's manifest with layers compressed so",
    )
    lock.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if the lock is not current"
    )
    lock.add_argument(
        "--upgrade", nargs="*", metavar="NAME", help="resolve everything, or what is named, afresh"
    )
    lock.add_argument("--dry-run", action="store_true", help="write nothing; print what would change")
    lock.add_argument(
        "--min-age",
        type=_age,
        metavar="AGE",
        help="ignore releases that are younger: 7d, 36h, 2w; says so where an age is not known",
    )
    lock.add_argument(
        "--toolchain",
        metavar="NAME",
        help="lock a toolchain (shipped, or a path) without a project, into -o FILE",
    )
    lock.add_argument("-o", "--output", metavar="FILE", type=Path, help="with --toolchain: the lock")
    lock.add_argument(
        "--allow-expired",
        action="store_true",
        help="accept a signed index past its Valid-Until; the lock says so",
    )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    paths = _lock_paths(call)
    if call.arguments.check:
        return _check(call, paths)
    compressions = _compressions(call.arguments.compression, materialise=call.arguments.materialise)
    from lockbuild.workflow.changes import pin_changes
    from lockbuild.workflow.lock import update_lock
    from lockbuild.workflow.project import load_project
    from lockbuild.workflow.resolving import LockOptions

    project = load_project(paths)
    platforms = call.platforms()
    options = LockOptions(
        upgrade=None if call.arguments.upgrade is None else frozenset(call.arguments.upgrade),
        allow_expired=call.arguments.allow_expired,
        platforms=tuple(platforms),
        not_after=None if call.arguments.min_age is None else call.workspace.now - call.arguments.min_age,
    )
    made = (platforms or [call.workspace.platform]) if call.arguments.materialise else []
    old, new = update_lock(
        call.workspace,
        project,
        options,
        dry_run=call.arguments.dry_run,
        platforms=made,
        compressions=compressions,
    )
    call.progress.close()
    _print_changes(call.printer, project, pin_changes(old, new), new, written=not call.arguments.dry_run)
    return ExitStatus.OK


def _compressions(text: str | None, *, materialise: bool) -> list[Compression]:
    """What --compression names."""
    if text is None:
        return []
    if not materialise:
        raise UsageError("--compression goes with --materialise, which makes the layers")
    from lockbuild.oci.encoders import compression_of

    return [compression for part in text.split(",") if (compression := compression_of(part)) != "none"]


def _lock_paths(call: Call) -> ProjectPaths:
    """Those of the project, or those of a toolchain that is locked by itself."""
    if (call.arguments.toolchain is None) != (call.arguments.output is None):
        raise UsageError(
            "--toolchain goes with -o: a toolchain that is locked by itself needs a file for its lock"
        )
    if call.arguments.toolchain is None:
        return call.paths()
    from lockbuild.workflow.toolchains import toolchain_file

    file = toolchain_file(call.arguments.toolchain, Path.cwd(), on=None, key="--toolchain")
    from lockbuild.workflow.workspace import ProjectPaths

    return ProjectPaths(file.parent.absolute(), toolchain=file.absolute(), lock_file=call.output())


def _check(call: Call, paths: ProjectPaths) -> ExitStatus:
    from lockbuild.workflow.stamp import before_reading, file_digests, read_stamp, write_stamp

    if read_stamp(paths).get("checked") is True:
        _print_check(call.printer, paths, [])
        return ExitStatus.OK
    from lockbuild.workflow.lock import check_lock
    from lockbuild.workflow.project import load_project

    since = before_reading()
    project = load_project(paths)
    changes = check_lock(project)
    files = file_digests((path for path in project.files if path.is_file()), since)
    if not changes:
        write_stamp(paths, files, checked=True)
    _print_check(call.printer, paths, changes)
    return ExitStatus.DIFFERENT if changes else ExitStatus.OK


def _print_changes(
    printer: Printer, project: Project, changes: list[PinChange], lock: Lock, *, written: bool
) -> None:
    """What locking changed, as a table of old -> new."""
    value = {
        "lock": str(project.paths.lock),
        "written": written,
        "changes": [{"name": c.name, "old": c.old, "new": c.new} for c in changes],
    }
    if not changes:
        printer.say(value, f"{project.paths.lock.name}: no pin changes", reassurance=True)
        return
    added = [change for change in changes if change.old is None]
    shown = changes if len(added) < len(changes) or len(changes) <= 20 else []
    lines = _table([(c.name, c.old or "-", c.new or "-") for c in shown])
    done = "wrote" if written else "would write"
    megabytes = sum(source.size or 0 for source in lock.sources) / 1e6
    summary = f"{done} {project.paths.lock.name}: {len(lock.sources)} sources, {megabytes:.0f} MB"
    printer.say(value, "\n".join([*lines, summary]))


def _print_check(printer: Printer, paths: ProjectPaths, changes: list[KeyChange]) -> None:
    """Whether a lock is current, and which keys changed if not."""
    value = {
        "current": not changes,
        "changes": [{"key": c.key, "old": c.old, "new": c.new} for c in changes],
    }
    if not changes:
        printer.say(value, f"{paths.lock.name} is current", reassurance=True)
        return
    lines = "".join(f"\n  {change}" for change in changes)
    printer.say(value, f"{paths.lock.name} does not belong to the manifest; changed:{lines}")


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    name = max(len(row[0]) for row in rows)
    old = max(len(row[1]) for row in rows)
    return [f"  {row[0]:<{name}}  {row[1]:<{old}}  ->  {row[2]}" for row in rows]


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 36h, 7d or 2w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
