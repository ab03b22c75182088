"""Refusing combinations that cannot work before a lock is written, and telling of those that may disappoint."""

from __future__ import annotations

from collections.abc import Mapping

from lockbuild.environment.compose import in_environment, require_composable
from lockbuild.environment.materialise import recipe
from lockbuild.errors import ResolveError
from lockbuild.events import Note
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.reading import open_regular
from lockbuild.resolve.consistency import findings
from lockbuild.resolve.context import Resolution
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace

_LIMIT = 1 << 20
"""Bytes of a CMakeLists.txt that are looked at: what it asks for stands at its top."""


def check_consistency(workspace: Workspace, project: Project, resolved: Mapping[str, Resolution]) -> None:
    """ResolveError for the first finding that cannot work, after all others were told as warnings."""
    refused = []
    for finding in findings(project.manifest, resolved, _listings(project)):
        if finding.refused:
            refused.append(finding)
        else:
            text = f"{finding.key}: {finding.message}\nhint: {finding.hint}"
            workspace.report(Note(text, level="warning"))
    if refused:
        first = refused[0]
        more = "".join(f"\n{other.key}: {other.message}" for other in refused[1:])
        raise ResolveError(first.message + more, on=first.key, hint=first.hint)


def check_environment(lock: Lock, platform: Platform) -> None:
    """UsageError where what the lock has for ``platform`` cannot stand in one environment, which is known before any of
    it is fetched: variables exported with different values, places inside one another, two ports for one place."""
    trees = in_environment(tree for tree in lock.trees if tree.platform in (platform, "any"))
    # Only ports that others bring along are compared by what they are made from, and those have sources.
    require_composable([(tree, recipe(tree, lock.sources_of(tree))) for tree in trees])


def _listings(project: Project) -> dict[str, str]:
    """The beginning of the CMakeLists.txt at the top of each target's source."""
    found = {}
    for name, target in project.manifest.project.targets.items():
        try:
            with open_regular(project.paths.directory / target.source / "CMakeLists.txt") as file:
                found[name] = file.read(_LIMIT).decode("utf-8", "replace")
        except OSError:
            continue
    return found
