"""``lockbuild lock``: manifest -> lock, keeping every pin that did not have to change.

A tree whose keys in the manifest are as the lock was made from them keeps its sources; any other is resolved afresh,
and with it what depends on it. A platform that is new gets trees of its own beside those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockbuild.errors import StaleLockError, UsageError
from lockbuild.model.belonging import locked_platforms, misfits, tree_names
from lockbuild.model.lock import Lock, LockedTree
from lockbuild.model.lockfile import canonical, dumps
from lockbuild.model.manifest import Manifest
from lockbuild.model.platform import Platform
from lockbuild.model.read import has_conflict
from lockbuild.workflow.consistency import check_consistency, check_environment
from lockbuild.workflow.image import recorded_environment
from lockbuild.workflow.parts import (
    Parts,
    known_environments,
    limited,
    with_known_digests,
    with_known_sha256,
)
from lockbuild.workflow.project import (
    KeyChange,
    Project,
    load_lock,
    load_lock_if_any,
    manifest_changes,
    manifest_record,
    require_trees,
    write_lock,
)
from lockbuild.workflow.project_files import changed_files
from lockbuild.workflow.resolving import LockOptions, resolve_all
from lockbuild.workflow.sync import materialised, sync
from lockbuild.workflow.toolchains import read_text
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.oci.encoders import Compression


@dataclass(frozen=True, slots=True)
class UpdatedLock:
    """The lock as it was (None where there was none) and as it is to be. ``changed`` is whether the file's bytes are
    others than they were, which they may be though no pin changed: it had a merge conflict, or was made from other
    keys that come to the same."""

    old: Lock | None
    new: Lock
    changed: bool


def resolve_lock(workspace: Workspace, project: Project, options: LockOptions) -> tuple[Lock | None, Lock]:
    """The lock as it is (None where there is none) and as it should be. Writes nothing."""
    manifest = project.manifest
    workspace.hold_store()
    old = _lock_to_go_on_from(workspace, project)
    platforms = _platforms(old, manifest, options)
    before = None if old is None else limited(old, platforms)
    stale = _stale(before, project, options)
    resolved = resolve_all(workspace, project, options, before, stale, platforms)
    check_consistency(workspace, project, resolved)
    parts = Parts()
    for resolution in resolved.values():
        parts.add(resolution)
    parts.trees.extend(_derive_trees(manifest, platforms))
    if before is None:
        trees, sources = parts.trees, list(parts.sources.values())
    else:
        changed = {change.key for change in manifest_changes(before, manifest)}
        trees = with_known_digests(before, parts, changed)
        sources = with_known_sha256(before, parts.sources.values())
    lock = Lock(
        manifest=manifest_record(manifest),
        suites=list(parts.suites.values()),
        trees=trees,
        sources=sources,
        claims=manifest.claims(),
        outputs={
            name: recorded
            for name, recorded in (before.outputs if before is not None else {}).items()
            if name in manifest.project.targets
        },
    )
    if before is not None:
        lock = lock.model_copy(update={"environments": known_environments(before, lock)})
    for platform in platforms:
        check_environment(lock, platform)
    return old, canonical(lock)


def _lock_to_go_on_from(workspace: Workspace, project: Project) -> Lock | None:
    """The lock as it is; of one with a merge conflict, what can stay."""
    text = read_text(project.paths.lock)
    if text is None or not has_conflict(text):
        return load_lock_if_any(project.paths)
    from lockbuild.workflow.conflict import resolved_conflict

    return resolved_conflict(project.paths.lock, text, project.manifest, workspace.report)


def _platforms(old: Lock | None, manifest: Manifest, options: LockOptions) -> list[Platform]:
    """What the lock shall be for: the manifest's platforms, those that were added to it before, and those now."""
    own = manifest.toolchain.platforms
    added: list[Platform] = []
    if old is not None:
        said = old.manifest.inputs.get("platforms", ())
        assert isinstance(said, list | tuple)
        added = [platform for platform in locked_platforms(old) if str(platform) not in said]
    return list(dict.fromkeys([*own, *added, *options.platforms]))


def _stale(old: Lock | None, project: Project, options: LockOptions) -> set[str]:
    """The names of trees that must be resolved afresh, whatever the platform."""
    manifest = project.manifest
    names = [name for name in tree_names(manifest) if not name.startswith("derive.")]
    wanted: set[str] = set()
    if options.upgrade is not None:
        wanted = set(names) if not options.upgrade else _named(options.upgrade, names)
    if old is None:
        return set(names)
    changed = [change.key for change in manifest_changes(old, manifest)]
    wrong = {misfit.name for misfit in misfits(old, manifest, locked_platforms(old))}
    wrong |= {file.name for file in changed_files(old, manifest, project.paths.directory)}
    return wanted | {
        name
        for name in names
        if name in wrong or any(key == name or key.startswith(f"{name}.") for key in changed)
    }


def _named(wanted: Iterable[str], names: Sequence[str]) -> set[str]:
    found = set()
    for name in wanted:
        matching = {known for known in names if known == name or known.partition(".")[2] == name}
        if not matching:
            known = ", ".join(names)
            raise UsageError(f"--upgrade: there is nothing called {name!r} to upgrade (there is: {known})")
        found |= matching
    return found


def _derive_trees(manifest: Manifest, platforms: Sequence[Platform]) -> list[LockedTree]:
    return [
        LockedTree(
            name=f"derive.{name}",
            platform=platform,
            unpack="derive",
            mount=derive.mount or f"/opt/{name}",
            exports=dict(derive.exports),
        )
        for name, derive in manifest.toolchain.derive.items()
        for platform in platforms
    ]


def update_lock(
    workspace: Workspace,
    project: Project,
    options: LockOptions,
    *,
    dry_run: bool = False,
    platforms: Sequence[Platform] = (),
    compressions: Sequence[Compression] = (),
) -> UpdatedLock:
    """Resolve, materialise for ``platforms``, and write the lock unless ``dry_run``.

    What is materialised gets the image's manifest with the layers in each of ``compressions``, and in those that the
    old lock has it in.
    """
    old, new = resolve_lock(workspace, project, options)
    for platform in platforms:
        environments = {key: image for key, image in new.environments.items() if key != str(platform)}
        new = new.model_copy(update={"environments": environments})  # the image is what comes out now
        synced = sync(workspace, project, new, platform, load=False)
        new = canonical(materialised(new, synced))
        before = None if old is None else old.environments.get(str(platform))
        wanted = sorted({*compressions, *(before.layers if before is not None else ())})
        image = recorded_environment(workspace, project, new, synced.environment, wanted)
        new = new.model_copy(update={"environments": {**new.environments, str(platform): image}})
    changed = read_text(project.paths.lock) != dumps(new) if dry_run else write_lock(project.paths, new)
    return UpdatedLock(old, new, changed=changed)


def check_lock(project: Project) -> list[KeyChange]:
    """What keeps the lock from being current: keys of the manifest that changed. Reads two files, no network.

    UsageError where there is no lock; StaleLockError where its text is not as lockbuild writes it, or its trees are
    not those of the manifest.
    """
    lock = load_lock(project.paths)
    changes = manifest_changes(lock, project.manifest)
    changes += [
        KeyChange(
            f"{file.name} ({file.path})", str(file.locked), None if file.found is None else str(file.found)
        )
        for file in changed_files(lock, project.manifest, project.paths.directory)
    ]
    if changes:
        return changes
    require_trees(project, lock)
    text, wanted = read_text(project.paths.lock) or "", dumps(lock)
    if text == wanted:
        return []
    if text.replace("\r\n", "\n") == wanted:
        what = "its lines end with CR LF, those of a lock with LF alone"
        hint = (
            f"keep git from changing them: add the line `{project.paths.lock.name} -text` to .gitattributes"
        )
    else:
        what = "it is not in canonical form: it was edited or merged by hand"
        hint = "run `lockbuild lock`, which writes it anew and keeps its pins"
    raise StaleLockError(what, on=str(project.paths.lock), hint=hint)
