"""``lockbuild bundle create``: everything that a lock needs elsewhere, as one file.

The file is a function of the lock and the options: from whatever store it is made, it has the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import UsageError
from lockbuild.events import Advanced, Finished, Started
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.lockfile import dumps
from lockbuild.model.platform import Platform
from lockbuild.oci.bundle.contents import Contents
from lockbuild.oci.layers import blob_chunks, layer_chunks
from lockbuild.workflow.bundle.contents import BundleOptions, base_of, contents_of
from lockbuild.workflow.bundle.needs import Needs, With, needs, require_platforms
from lockbuild.workflow.output import output
from lockbuild.workflow.place import is_written_into
from lockbuild.workflow.project import Project, require_current
from lockbuild.workflow.project_files import store_patches
from lockbuild.workflow.sync import Synced, fetch_sources, sync
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Created:
    """The files that were written, the digest and size in bytes of the whole, and what it holds."""

    files: tuple[Path, ...]
    digest: Digest
    size: int
    contents: Contents


def create(
    workspace: Workspace, project: Project, lock: Lock, options: BundleOptions, target: Path
) -> Created:
    """Write the bundle of ``lock`` to ``target``: whole, or not at all.

    What the store lacks is made or fetched first. StaleLockError where the lock does not belong to the project;
    UsageError where it does not say enough, or options do not go together; FetchError where something cannot be had
    or written.
    """
    require_current(project, lock)
    platforms = tuple(sorted(set(options.platforms))) or (workspace.platform,)
    require_platforms(lock, platforms, on=str(project.paths.lock))
    if options.image and (options.since is not None or options.what == "sources"):
        raise UsageError("--image needs every layer, and neither --since nor --with sources has them")
    if options.split is None:
        is_written_into(target)
    workspace.hold_store()
    needed = needs(lock, platforms, options.what)
    base = None if options.since is None else base_of(options.since, platforms, options.what)
    synced = _made_real(workspace, project, lock, platforms, needed, options.what)
    contents, configs, layers = contents_of(
        workspace, project, lock, platforms, needed, base, synced, options
    )
    from lockbuild.oci.bundle.write import bundle_files

    text = dumps(lock).encode()
    roots = {
        layer.digest: (layer, workspace.store.tree_path(diff_id), contents_name)
        for diff_id, layer in layers.items()
        for contents_name in needed.trees[diff_id][:1]
    }

    def chunks(digest: Digest) -> Iterable[Buffer]:
        if digest in roots:
            layer, root, name = roots[digest]
            return layer_chunks(workspace.store, layer, root, name=name)
        return blob_chunks(workspace.store, digest)

    files = bundle_files(contents, lock, text, configs, chunks)
    task = f"bundle:{target}"
    workspace.report(Started(task, f"write {target.name}", files.size))
    try:
        with output(target, files.size, options.split) as out:
            files.write(_reporting(out.write, workspace, task))
            out.commit()
    finally:
        workspace.report(Finished(task))
    return Created(tuple(out.files), out.digest, files.size, contents)


def _reporting(write: Callable[[Buffer], None], workspace: Workspace, task: str) -> Callable[[Buffer], None]:
    def reporting(data: Buffer) -> None:
        write(data)
        workspace.report(Advanced(task, memoryview(data).nbytes))

    return reporting


def _made_real(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    platforms: Sequence[Platform],
    needed: Needs,
    what: With,
) -> dict[Platform, Synced]:
    """Have every tree and source in the store; what the lock came to on each platform, where trees are taken along."""
    synced: dict[Platform, Synced] = {}
    if what != "sources" or not all(map(workspace.store.has_tree, needed.trees)):
        for platform in platforms:
            synced[platform] = sync(workspace, project, lock, platform, load=False)
    store_patches(lock, project.paths.directory, workspace.store)
    fetch_sources(workspace, lock, needed.sources)
    return synced
