"""A project made ready to be built: its targets, and the environment that its lock was made into.

From the stamp of an earlier sync (`lockbuild.workflow.stamp`) where nothing has changed since: then neither manifests
nor lock need to be read. Otherwise by reading, checking and syncing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.build.plan import TargetSteps
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment, MountedTree
from lockbuild.model.platform import Platform
from lockbuild.workflow.stamp import before_reading, file_digests, read_stamp, write_stamp
from lockbuild.workflow.workspace import ProjectPaths, Workspace

if TYPE_CHECKING:
    from lockbuild.model.lock import Lock
    from lockbuild.workflow.project import Project
    from lockbuild.workflow.sync import Synced


@dataclass(frozen=True, slots=True)
class Ready:
    """What builds need of a project. ``sources`` has the trees of ``[sources]`` by name; ``image_id`` is what the
    back-end runs the environment by."""

    paths: ProjectPaths
    targets: Mapping[str, TargetSteps]
    environment: Environment
    sources: Mapping[str, Digest]
    image_id: Digest


@dataclass(frozen=True, slots=True)
class OpenProject:
    """A project whose lock is current. ``ready`` makes the lock real: what can be refused before that, should be.

    ``reads`` are the directories of the project that builds read.
    """

    paths: ProjectPaths
    targets: Mapping[str, TargetSteps]
    reads: frozenset[Path]
    ready: Callable[[], Ready]


def open_project(workspace: Workspace, paths: ProjectPaths) -> OpenProject:
    """Open the project; StaleLockError where its lock does not belong to its manifest, and as `load_project`."""
    stamped = _stamped(workspace, paths)
    if stamped is not None:
        return OpenProject(paths, stamped.targets, _sources(paths, stamped.targets), lambda: stamped)
    project, lock, files = _read(paths)
    return OpenProject(
        paths,
        targets(project),
        reads(project),
        lambda: ready(project, _synced(workspace, project, lock, files)),
    )


def sync_summary(workspace: Workspace, paths: ProjectPaths) -> Mapping[str, Any]:
    """Sync the project; what ``lockbuild sync --json`` prints (`lockbuild.workflow.sync.Synced.summary`)."""
    if _stamped(workspace, paths) is not None:
        return {**read_stamp(paths)["synced"]["summary"], "made": []}
    return _synced(workspace, *_read(paths)).summary()


def ready(project: Project, synced: Synced) -> Ready:
    """What builds need of a project that was read and synced."""
    return Ready(project.paths, targets(project), synced.environment, synced.sources, synced.image_id)


def targets(project: Project) -> dict[str, TargetSteps]:
    """The targets of a manifest."""
    return {
        name: TargetSteps(
            source=target.source,
            steps=tuple(target.steps),
            outputs=tuple(target.outputs),
            env=target.env,
            sources=None if target.sources is None else tuple(target.sources),
        )
        for name, target in project.manifest.project.targets.items()
    }


def reads(project: Project) -> frozenset[Path]:
    """The directories of a project that builds read: the sources of its targets, and those under ``[sources]``."""
    from lockbuild.model.requests import PathRequest

    named = project.manifest.project.sources.values()
    further = {project.paths.directory / found.path for found in named if isinstance(found, PathRequest)}
    return _sources(project.paths, targets(project)) | further


def _sources(paths: ProjectPaths, known: Mapping[str, TargetSteps]) -> frozenset[Path]:
    return frozenset(paths.directory / target.source for target in known.values())


def _read(paths: ProjectPaths) -> tuple[Project, Lock, dict[str, str]]:
    from lockbuild.workflow.project import load_lock, load_project, require_current

    since = before_reading()
    project = load_project(paths)
    lock = load_lock(paths)
    require_current(project, lock)
    return project, lock, file_digests(project.files, since)


def _synced(workspace: Workspace, project: Project, lock: Lock, files: Mapping[str, str]) -> Synced:
    from lockbuild.workflow.sync import sync

    synced = sync(workspace, project, lock, workspace.platform)
    # A directory of the project as a source is compared with the lock by every sync.
    if not any(tree.unpack == "path" for tree in lock.trees):
        write_stamp(project.paths, files, synced=_stamp_of(ready(project, synced), synced))
    return synced


def _stamp_of(made: Ready, synced: Synced) -> dict[str, Any]:
    """The JSON of which `_stamped` makes the same again."""
    return {
        "summary": synced.summary(),
        "targets": {name: asdict(target) for name, target in made.targets.items()},
        "trees": [[tree.name, str(tree.digest), tree.mount] for tree in made.environment.trees],
        "variables": made.environment.variables,
        "sources": {name: str(digest) for name, digest in made.sources.items()},
    }


def _stamped(workspace: Workspace, paths: ProjectPaths) -> Ready | None:
    """What a sync before this made, if doing it again would do nothing."""
    synced = read_stamp(paths).get("synced")
    if not synced or synced["summary"]["platform"] != str(workspace.platform):
        return None
    summary = synced["summary"]
    workspace.hold_store()
    store = workspace.store
    if not store.has_root(paths.lock):
        return None  # another store, which would not keep the trees for this lock
    if not all(store.has_tree(Digest.parse(text)) for text in summary["trees"].values()):
        return None
    image_id = _image_id(workspace, Digest.parse(summary["image"]), Digest.parse(summary["manifest"]))
    if image_id is None:
        return None
    trees = [(name, Digest.parse(digest), mount) for name, digest, mount in synced["trees"]]
    return Ready(
        paths=paths,
        targets={name: _target(value) for name, value in synced["targets"].items()},
        environment=Environment(
            platform=Platform.parse(summary["platform"]),
            trees=tuple(
                MountedTree(name, digest, mount, store.tree_path(digest)) for name, digest, mount in trees
            ),
            variables=synced["variables"],
        ),
        sources={name: Digest.parse(digest) for name, digest in synced["sources"].items()},
        image_id=image_id,
    )


def _target(value: Mapping[str, Any]) -> TargetSteps:
    return TargetSteps(
        source=value["source"],
        steps=tuple(value["steps"]),
        outputs=tuple(value["outputs"]),
        env=value["env"],
        sources=None if value["sources"] is None else tuple(value["sources"]),
    )


def _image_id(workspace: Workspace, image: Digest, manifest: Digest) -> Digest | None:
    """What the back-end runs the image by; None where that is an engine which lacks it."""
    if workspace.backend_name not in ("auto", "docker"):
        return image
    from lockbuild.transport.engine import find_engine

    endpoint = find_engine(workspace.environ)
    if endpoint is None:
        return image if workspace.backend_name == "auto" else None
    from lockbuild.oci.load import loaded

    return loaded(endpoint, image, manifest)
