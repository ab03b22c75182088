"""Each command: arguments -> workflow -> printed result -> exit status."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.cli.progress import Progress
from lockbuild.cli.result import Printer
from lockbuild.errors import ExitStatus, UsageError
from lockbuild.store import Store
from lockbuild.workflow.workspace import ProjectPaths, Workspace, find_project

if TYPE_CHECKING:
    from lockbuild.model.platform import Platform
    from lockbuild.workflow.project import Project


def run(arguments: argparse.Namespace) -> int:
    """Run the command that ``arguments`` name."""
    printer = Printer(as_json=arguments.json, quiet=arguments.quiet)
    if arguments.command == "schema":
        return _schema(arguments, printer)
    if arguments.command == "config":
        return _config(arguments, printer)
    with Progress(quiet=arguments.quiet, verbose=arguments.verbose) as progress:
        workspace = Workspace(
            store=Store(store_directory(arguments.store, os.environ)),
            environ=dict(os.environ),
            report=progress,
            now=datetime.now(UTC),
            offline=arguments.offline,
            backend_name=arguments.backend,
        )
        with closing(workspace):
            return _COMMANDS[arguments.command](arguments, workspace, printer, progress)


def store_directory(chosen: Path | None, environ: Any) -> Path:
    """--store, else LOCKBUILD_STORE, else the platform's cache directory."""
    if chosen is not None:
        return chosen.absolute()
    if environ.get("LOCKBUILD_STORE"):
        return Path(environ["LOCKBUILD_STORE"]).absolute()
    import platformdirs

    return platformdirs.user_cache_path("lockbuild") / "store"


def _project(arguments: argparse.Namespace) -> Project:
    from lockbuild.workflow.project import load_project

    return load_project(_paths(arguments))


def _paths(arguments: argparse.Namespace) -> ProjectPaths:
    if arguments.project is None:
        return find_project(Path.cwd())
    paths = ProjectPaths(arguments.project.absolute())
    if not os.path.lexists(paths.manifest):
        raise UsageError(f"there is no {paths.manifest.name} in it", on=str(paths.directory))
    return paths


def _targets(arguments: argparse.Namespace, project: Project) -> list[str]:
    from lockbuild.workflow.session import choose_target

    if not arguments.targets:
        return list(project.manifest.project.targets)
    return [choose_target(project, name) for name in dict.fromkeys(arguments.targets)]


def _output(arguments: argparse.Namespace) -> Path | None:
    return None if arguments.output is None else arguments.output.absolute()


def _lock(
    arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress
) -> ExitStatus:
    paths = _lock_paths(arguments)
    if arguments.check:
        return _check(paths, printer)
    from lockbuild.workflow.changes import pin_changes
    from lockbuild.workflow.lock import update_lock
    from lockbuild.workflow.project import load_project
    from lockbuild.workflow.resolving import LockOptions

    project = load_project(paths)
    platforms = _platforms(arguments)
    options = LockOptions(
        upgrade=None if arguments.upgrade is None else frozenset(arguments.upgrade),
        allow_expired=arguments.allow_expired,
        platforms=tuple(platforms),
        not_after=None if arguments.min_age is None else workspace.now - arguments.min_age,
    )
    made = (platforms or [workspace.platform]) if arguments.materialise else []
    old, new = update_lock(workspace, project, options, dry_run=arguments.dry_run, platforms=made)
    progress.close()
    printer.lock(project, pin_changes(old, new), new, written=not arguments.dry_run)
    return ExitStatus.OK


def _lock_paths(arguments: argparse.Namespace) -> ProjectPaths:
    """Those of the project, or those of a toolchain that is locked by itself."""
    if (arguments.toolchain is None) != (arguments.output is None):
        raise UsageError(
            "--toolchain goes with -o: a toolchain that is locked by itself needs a file for its lock"
        )
    if arguments.toolchain is None:
        return _paths(arguments)
    from lockbuild.workflow.toolchains import toolchain_file

    file = toolchain_file(arguments.toolchain, Path.cwd(), on=None, key="--toolchain")
    return ProjectPaths(
        file.parent.absolute(), toolchain=file.absolute(), lock_file=arguments.output.absolute()
    )


def _check(paths: ProjectPaths, printer: Printer) -> ExitStatus:
    from lockbuild.workflow.noop import file_digests, stamped_current, write_stamp

    if stamped_current(paths):
        printer.lock_check(paths, [])
        return ExitStatus.OK
    from lockbuild.workflow.lock import check_lock
    from lockbuild.workflow.project import load_project

    project = load_project(paths)
    files = file_digests(path for path in project.files if path.is_file())
    changes = check_lock(project)
    if not changes:
        write_stamp(paths, files, checked=True)
    printer.lock_check(paths, changes)
    return ExitStatus.DIFFERENT if changes else ExitStatus.OK


def _platforms(arguments: argparse.Namespace) -> list[Platform]:
    from lockbuild.model.platform import Platform

    try:
        return [Platform.parse(text) for text in arguments.platform or ()]
    except ValueError as error:
        raise UsageError(f"--platform: {error}") from None


def _sync(
    arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress
) -> ExitStatus:
    from lockbuild.workflow.noop import file_digests, stamped_sync, write_stamp

    paths = _paths(arguments)
    known = stamped_sync(workspace, paths)
    if known is not None:
        printer.synced(known)
        return ExitStatus.OK
    from lockbuild.workflow.project import load_lock, load_project, require_current
    from lockbuild.workflow.sync import sync

    project = load_project(paths)
    lock = load_lock(paths)
    require_current(project, lock)
    files = file_digests(project.files)
    result = sync(workspace, project, lock, workspace.platform).summary()
    if not any(tree.unpack == "path" for tree in lock.trees):
        write_stamp(paths, files, synced=result)
    progress.close()
    printer.synced(result)
    return ExitStatus.OK


def _build(
    arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress
) -> ExitStatus:
    from lockbuild.workflow.build import build

    project = _project(arguments)
    results = build(workspace, project, _targets(arguments, project), _output(arguments))
    progress.close()
    printer.built(results)
    return ExitStatus.OK


def _reproduce(
    arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress
) -> ExitStatus:
    from lockbuild.workflow import reproduce

    project = _project(arguments)
    targets = _targets(arguments, project)
    if arguments.output is not None and (arguments.record or arguments.twice):
        raise UsageError("-o goes with --check-hash")
    if arguments.record:
        outcomes = reproduce.record(workspace, project, targets)
        progress.close()
        printer.recorded(project, outcomes)
        return ExitStatus.OK
    if arguments.twice:
        comparisons = reproduce.twice(workspace, project, targets)
    else:
        comparisons = reproduce.check_hash(workspace, project, targets, _output(arguments))
    progress.close()
    printer.compared(comparisons, with_lock=not arguments.twice)
    same = all(comparison.same for comparison in comparisons if comparison.decisive)
    return ExitStatus.OK if same else ExitStatus.DIFFERENT


def _inside(arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress) -> int:
    import sys

    from lockbuild.workflow.run import run_command
    from lockbuild.workflow.session import choose_target

    project = _project(arguments)
    shell = arguments.command == "shell"
    command = ["/bin/bash", "--norc"] if shell else arguments.argv
    progress.outputs_to(sys.stdout.buffer)
    return run_command(
        workspace,
        project,
        choose_target(project, arguments.target),
        command,
        interactive=shell or (sys.stdin.isatty() and sys.stdout.isatty()),
        failed=arguments.failed,
    )


def _store(
    arguments: argparse.Namespace, workspace: Workspace, printer: Printer, progress: Progress
) -> ExitStatus:
    from lockbuild.workflow import store

    if arguments.verb == "path":
        from lockbuild.workflow.run import tree_directory

        directory = tree_directory(workspace, _project(arguments), arguments.name)
        progress.close()
        printer.path(directory)
        return ExitStatus.OK
    if arguments.verb == "verify":
        damages = store.verify(workspace, repair=arguments.repair)
        progress.close()
        printer.damages(damages, repaired=arguments.repair)
        return ExitStatus.INTEGRITY if damages else ExitStatus.OK
    if arguments.verb == "gc":
        collected = store.collect(workspace, dry_run=arguments.dry_run)
        progress.close()
        printer.collected(collected, dry_run=arguments.dry_run)
        return ExitStatus.OK
    printer.stats(workspace.store.root, workspace.store.stats())
    return ExitStatus.OK


def _schema(arguments: argparse.Namespace, printer: Printer) -> ExitStatus:
    from lockbuild.workflow.schema import json_schema

    printer.raw(json_schema(arguments.format))
    return ExitStatus.OK


def _config(arguments: argparse.Namespace, printer: Printer) -> ExitStatus:
    from lockbuild.config import config_path, load

    path, _ = config_path(os.environ)
    if arguments.verb == "path":
        printer.config_path(path.absolute())
        return ExitStatus.OK
    from lockbuild.config.effective import effective

    printer.config(path.absolute(), effective(load(os.environ), os.environ))
    return ExitStatus.OK


_COMMANDS: dict[str, Callable[[argparse.Namespace, Workspace, Printer, Progress], int]] = {
    "lock": _lock,
    "sync": _sync,
    "build": _build,
    "reproduce": _reproduce,
    "run": _inside,
    "shell": _inside,
    "store": _store,
}
