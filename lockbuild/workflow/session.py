"""A target in its sandbox: the plan, the read-only inputs and the open session, for build, run and shell alike."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockbuild.build.plan import Plan, plan_target
from lockbuild.build.snapshot import snapshot
from lockbuild.errors import UsageError
from lockbuild.model.environment import ReadOnlyInput, SandboxSpec
from lockbuild.sandbox.backend import Session
from lockbuild.workflow.ready import Ready
from lockbuild.workflow.state import failed_directory
from lockbuild.workflow.workspace import ProjectPaths, Workspace


@dataclass(frozen=True, slots=True)
class Prepared:
    """A target ready to run: its plan, and the sandbox that shows what the plan names."""

    plan: Plan
    spec: SandboxSpec


def choose_target(paths: ProjectPaths, targets: Collection[str], name: str | None) -> str:
    """The target of that name, or the only one; UsageError otherwise, listing them."""
    if name is None and len(targets) == 1:
        return next(iter(targets))
    if name is not None and name in targets:
        return name
    said = (
        f"there is no target {name!r}"
        if name is not None
        else "the project has several targets; name one of them"
    )
    raise UsageError(
        f"{said} (there is: {', '.join(targets)})",
        on=str(paths.manifest),
        hint=None if name else f"add --target NAME, as --target {next(iter(targets))}",
    )


def choose_targets(paths: ProjectPaths, targets: Collection[str], names: Sequence[str]) -> list[str]:
    """The targets of those names, each once; all where none is named."""
    if not names:
        return list(targets)
    return [choose_target(paths, targets, name) for name in dict.fromkeys(names)]


def prepare(workspace: Workspace, ready: Ready, name: str, destination: Path | None) -> Prepared:
    """Snapshot the target's source and plan its build. ``destination``, where its outputs go if that is not dist, is no
    part of the source."""
    target = ready.targets[name]
    directory = ready.paths.directory / target.source
    source = snapshot(
        directory,
        workspace.store,
        named=f"{ready.paths.manifest}: targets.{name}.source",
        within=ready.paths.directory,
        excluded=ready.paths.never_source(destination),
    )
    names = target.sources if target.sources is not None else list(ready.sources)
    plan = plan_target(name, target, ready.environment, source, {key: ready.sources[key] for key in names})
    inputs = tuple(ReadOnlyInput(workspace.store.tree_path(digest), mount) for mount, digest in plan.inputs)
    return Prepared(
        plan,
        SandboxSpec(environment=ready.environment, inputs=inputs, image=ready.image_id),
    )


@contextmanager
def open_session(
    workspace: Workspace, paths: ProjectPaths, prepared: Prepared, *, failed: bool
) -> Iterator[Session]:
    """Enter the sandbox; with ``failed`` the build directory is as the last failed build left it."""
    with workspace.backend.session(prepared.spec) as session:
        if failed:
            kept = failed_directory(workspace, paths, prepared.plan.name)
            if not kept.exists():
                raise UsageError(
                    "no failed build of this target was kept",
                    on=prepared.plan.name,
                    hint="leave out --failed",
                )
            session.seed(prepared.plan.directory, kept.path)
        yield session


def shell_line(workspace: Workspace, paths: ProjectPaths, target: str) -> str:
    """The command that enters the sandbox as the failed build left it; it can be pasted anywhere."""
    return shlex.join(
        [
            "lockbuild",
            "shell",
            "--project",
            str(paths.directory),
            "--store",
            str(workspace.store.root),
            "--backend",
            workspace.backend.name,
            "--target",
            target,
            "--failed",
        ]
    )
