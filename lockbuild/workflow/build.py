"""``lockbuild build``: a target's steps in its sandbox, its outputs in place as one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockbuild.build.outputs import collect
from lockbuild.build.run import run_steps
from lockbuild.compare.hints import sandbox_paths
from lockbuild.errors import BuildError, LockbuildError
from lockbuild.events import Event, Note
from lockbuild.model.outcome import BuildOutcome
from lockbuild.sandbox.backend import Session
from lockbuild.workflow.destinations import Destinations
from lockbuild.workflow.ready import Ready, open_project
from lockbuild.workflow.session import Prepared, choose_targets, prepare, shell_line
from lockbuild.workflow.state import keep_failed, new_log
from lockbuild.workflow.trust import trusted
from lockbuild.workflow.workspace import ProjectPaths, Workspace


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build whose outputs are still in ``directory``, a scratch directory."""

    outcome: BuildOutcome
    directory: Path


def build(
    workspace: Workspace, paths: ProjectPaths, names: Sequence[str], chosen: Path | None
) -> list[tuple[BuildOutcome, Path]]:
    """Build each target that is named, or all, and put its outputs in place; each outcome with the directory where
    they are."""
    project = open_project(workspace, paths)
    targets = choose_targets(paths, project.targets, names)
    destinations = Destinations(paths, project.targets, project.reads, chosen)
    destinations.check(targets, workspace.store.root)
    ready = project.ready()
    results = []
    for target in targets:
        destination = destinations.of(target)
        with _cached(workspace, ready, target, destination) as found, ExitStack() as builds:
            built = found or builds.enter_context(build_once(workspace, ready, target, destination))
            destinations.publish(target, built.directory, built.outcome.files, workspace.report)
        if found is None and workspace.cache is not None:
            workspace.cache.keep_outputs(built.outcome, workspace.platform, destination)
        results.append((built.outcome, destination))
    return results


@contextmanager
def _cached(workspace: Workspace, ready: Ready, target: str, destination: Path) -> Iterator[Built | None]:
    """What a cache has of the target's recorded outputs, where the user wants that; None otherwise."""
    if workspace.cache is None or not workspace.config.cache.outputs:
        yield None
        return
    from lockbuild.workflow.cached_outputs import recorded_outputs

    with workspace.store.scratch() as directory:
        outcome = recorded_outputs(workspace, workspace.cache, ready, target, destination, directory)
        yield None if outcome is None else Built(outcome, directory)


@contextmanager
def build_once(
    workspace: Workspace,
    ready: Ready,
    target: str,
    destination: Path | None,
    *,
    thorough: bool = False,
) -> Iterator[Built]:
    """Build a target; its outputs are in ``Built.directory`` until the context ends. ``destination`` as in `prepare`.

    IntegrityError where a tree that it is built from was changed in the store; ``thorough`` hashes all of them.
    BuildError where a step fails: it names the log, and a line that enters the sandbox as the step left it.
    """
    prepared = prepare(workspace, ready, target, destination)
    started = time.monotonic()
    with workspace.store.scratch() as scratch:
        with (
            trusted(workspace, ready.environment, prepared.plan, thorough=thorough) as alarm,
            workspace.backend.session(prepared.spec) as session,
        ):

            def report(event: Event) -> None:
                alarm()
                workspace.report(event)

            log = new_log(workspace, ready.paths, target)
            try:
                with log:
                    run_steps(
                        prepared.plan,
                        session,
                        log,
                        report=report,
                        sandboxed=workspace.backend.guarantees.filesystem,
                    )
                collected = scratch / "outputs"
                collected.mkdir()
                files = collect(
                    lambda into, select: session.export(prepared.plan.directory, into, select=select),
                    prepared.plan.outputs,
                    collected,
                )
            except BuildError as error:
                raise _explained(workspace, ready.paths, prepared, session, error, log.path) from None
        _warn_of_paths(workspace, collected, [file.path for file in files])
        yield Built(
            BuildOutcome(
                target=target,
                input=prepared.plan.digest(),
                files=tuple(files),
                backend=workspace.backend.name,
                reproducible=workspace.backend.guarantees.reproducible,
                seconds=time.monotonic() - started,
            ),
            collected,
        )


def _explained(
    workspace: Workspace,
    paths: ProjectPaths,
    prepared: Prepared,
    session: Session,
    error: BuildError,
    log_file: Path,
) -> BuildError:
    """The same failure with the log and the line that enters the sandbox, whose build directory is kept."""
    name = prepared.plan.name
    hint = f"{error.hint}\n" if error.hint else ""
    hint += f"log: {log_file}\n"
    try:
        keep_failed(workspace, paths, name, session, prepared.plan.directory)
        hint += f"enter the sandbox as this left it: {shell_line(workspace, paths, name)}"
    except (OSError, LockbuildError) as reason:
        hint += f"its build directory could not be kept: {reason}"
    return BuildError(error.what, on=error.on or name, hint=hint)


def _warn_of_paths(workspace: Workspace, directory: Path, files: list[str]) -> None:
    for file in files:
        found = sandbox_paths(directory / file)
        if found:
            workspace.report(
                Note(
                    f"{file} contains a path of the sandbox: {found[0]}\n"
                    "hint: a compiler that does not go through emcc, -grecord-command-line, or a configure step "
                    "that stores paths put it there; it is the same for everyone, but says where it was built",
                    level="warning",
                )
            )
