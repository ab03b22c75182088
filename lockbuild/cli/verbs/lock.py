"""``lockbuild lock``."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.amounts import amount, count
from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.oci.encoders import Compression
    from lockbuild.workflow.changes import PinChange, Unbound
    from lockbuild.workflow.lock import UpdatedLock
    from lockbuild.workflow.project import KeyChange
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
    _require_sense(call.arguments)
    paths = _lock_paths(call)
    if call.arguments.check:
        return _check(call, paths)
    compressions = _compressions(call.arguments.compression)
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
    updated = update_lock(
        call.workspace,
        project,
        options,
        dry_run=call.arguments.dry_run,
        platforms=made,
        compressions=compressions,
    )
    call.progress.close()
    _print_updated(call, paths, updated)
    return ExitStatus.OK


_NOT_WITH_CHECK = (
    "--materialise",
    "--platform",
    "--compression",
    "--upgrade",
    "--dry-run",
    "--min-age",
    "--allow-expired",
)
"""What says how to make a lock, or what to do with it."""


def _require_sense(arguments: argparse.Namespace) -> None:
    """UsageError where an option would do nothing beside the others, or misses the one that it goes with."""

    def given(option: str) -> bool:
        value = getattr(arguments, option.removeprefix("--").replace("-", "_"))
        return value is not None and value is not False

    if arguments.check and (others := [option for option in _NOT_WITH_CHECK if given(option)]):
        raise UsageError(
            f"--check makes no lock, so it does not go with {', '.join(others)}",
            hint="`lockbuild lock --dry-run` says what locking would change"
            if "--dry-run" not in others
            else "leave one of both out: --check compares the lock with the manifest, --dry-run resolves",
        )
    if given("--compression") and not arguments.materialise:
        raise UsageError("--compression goes with --materialise, which makes the layers")
    if arguments.output is not None and arguments.toolchain is None:
        raise UsageError(
            "-o goes with --toolchain: the lock of a project stands beside its manifest",
            hint="lock a toolchain by itself with --toolchain NAME -o FILE, or leave -o out",
        )
    if arguments.toolchain is not None and arguments.output is None:
        raise UsageError(
            "--toolchain needs -o FILE: a toolchain that is locked by itself has no place of its own for its lock"
        )
    if arguments.toolchain is not None and arguments.project is not None:
        raise UsageError(
            "--toolchain locks a toolchain without a project, so --project does not go with it",
            hint="a project names its toolchain in its manifest; leave one of both out",
        )


def _compressions(text: str | None) -> list[Compression]:
    """What --compression names."""
    if text is None:
        return []
    from lockbuild.oci.encoders import compression_of

    return [compression for part in text.split(",") if (compression := compression_of(part)) != "none"]


def _lock_paths(call: Call) -> ProjectPaths:
    """Those of the project, or those of a toolchain that is locked by itself."""
    if call.arguments.toolchain is None:
        return call.paths()
    from lockbuild.workflow.toolchains import toolchain_file

    file = toolchain_file(call.arguments.toolchain, Path.cwd(), on=None, key="--toolchain")
    from lockbuild.workflow.workspace import ProjectPaths

    return ProjectPaths(file.parent.absolute(), toolchain=file.absolute(), lock_file=call.output_file())


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


def _print_updated(call: Call, paths: ProjectPaths, updated: UpdatedLock) -> None:
    """What locking changed, as a table of old -> new; whether the file was written; what it binds no longer."""
    from lockbuild.workflow.changes import pin_changes, unbound

    changes, loose = pin_changes(updated.old, updated.new), unbound(updated.old, updated.new)
    dry_run = call.arguments.dry_run
    value = {
        "lock": str(paths.lock),
        "written": updated.changed and not dry_run,
        "changes": [{"name": c.name, "old": c.old, "new": c.new} for c in changes],
        "unbound": {"trees": loose.trees, "images": list(loose.images)},
    }
    done = f"{'would write' if dry_run else 'wrote'} {paths.lock.name}"
    if not changes:
        text = f"{done}: no pin changes" if updated.changed else f"{paths.lock.name}: no pin changes"
        call.printer.say(value, text, reassurance=True)
        return
    size = sum(source.size or 0 for source in updated.new.sources)
    lines = [*_table(changes), f"{done}: {count(len(updated.new.sources), 'source')}, {amount(size)}"]
    if loose:
        lines.append(_unbound_text(loose, str(call.workspace.platform), dry_run=dry_run))
    call.printer.say(value, "\n".join(lines))


def _unbound_text(loose: Unbound, here: str, *, dry_run: bool) -> str:
    """That a lock binds less than it did, and what helps."""
    count, images = loose.trees, len(loose.images)
    what = [f"{count} tree{'s' if count > 1 else ''}"] if count else []
    if images:
        what.append("the image" if images == 1 else f"{images} images")
    many = "are" if count + images > 1 else "is"
    be = f"{'would' if dry_run else many} no longer{' be' if dry_run else ''}"
    others = loose.platforms and list(loose.platforms) != [here]
    options = "".join(f" --platform {platform}" for platform in loose.platforms) if others else ""
    them = "them" if count + images > 1 else "it"
    return f"{' and '.join(what)} {be} bound by digest; `lockbuild lock --materialise{options}` binds {them} again"


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


def _table(changes: list[PinChange]) -> list[str]:
    """A line a change; none where that would only be a long list of what is new."""
    if len(changes) > 20 and all(change.old is None for change in changes):
        return []
    rows = [(change.name, change.old or "(new)", change.new or "(gone)") for change in changes]
    name = max(len(row[0]) for row in rows)
    old = max(len(row[1]) for row in rows)
    return [f"  {row[0]:<{name}}  {row[1]:<{old}}  ->  {row[2]}" for row in rows]


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 36h, 7d or 2w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
