"""``lockbuild run`` and ``lockbuild shell``: any command inside the environment that builds run in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockbuild.events import Output
from lockbuild.workflow.ready import open_project
from lockbuild.workflow.session import choose_target, open_session, prepare
from lockbuild.workflow.workspace import ProjectPaths, Workspace


def run_command(
    workspace: Workspace,
    paths: ProjectPaths,
    name: str | None,
    command: Sequence[str],
    *,
    interactive: bool,
    failed: bool = False,
) -> int:
    """Run ``command`` in $BUILD with the source, inputs and variables of the target ``name`` (the only one,
    if None); its exit status.

    ``interactive`` connects it to this terminal. What it writes is gone afterwards.
    """
    project = open_project(workspace, paths)
    target = choose_target(paths, project.targets, name)
    prepared = prepare(workspace, project.ready(), target, None)
    with open_session(workspace, paths, prepared, failed=failed) as session:
        if interactive:
            return session.interactive(
                command, cwd=prepared.plan.directory, variables=prepared.plan.variables
            )
        return session.run(
            command,
            cwd=prepared.plan.directory,
            variables=prepared.plan.variables,
            output=lambda data: workspace.report(Output(data)),
        )


def tree_directory(workspace: Workspace, paths: ProjectPaths, name: str) -> Path:
    """The unpacked directory in the store of the tree called ``name``; what ``lockbuild store path`` prints.

    InconclusiveError where the store does not have it. Nothing is fetched or made.
    """
    from lockbuild.errors import InconclusiveError, UsageError
    from lockbuild.workflow.known import known_trees
    from lockbuild.workflow.project import load_lock, load_project, require_current

    project = load_project(paths)
    lock = load_lock(paths)
    require_current(project, lock)
    names = [tree.name for tree in lock.trees if tree.platform in (workspace.platform, "any")]
    chosen = [known for known in names if known == name or known.partition(".")[2] == name]
    if len(chosen) != 1:
        raise UsageError(
            f"there is no tree {name!r} in the lock (there is: {', '.join(names)})", on=str(paths.lock)
        )
    tree = lock.tree(chosen[0], workspace.platform)
    digest = known_trees(workspace, project, lock, workspace.platform).get(tree.id)
    if digest is None:
        raise InconclusiveError(
            f"{tree.name} is not in the store {workspace.store.root}",
            on=str(paths.lock),
            hint="run `lockbuild sync`, which brings all that the lock names into the store",
        )
    root = workspace.store.tree_path(digest)
    return root if tree.name.startswith("sources.") else root / tree.mount.lstrip("/")
