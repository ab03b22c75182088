"""``lockbuild lock``: manifest -> lock, keeping every pin that did not have to change.

The unit of change is a tree. A tree whose keys in the manifest are as the lock was made from them keeps its
sources; any other is resolved afresh. Digests of trees stay while their sources do, those of derived tools and of
images while everything below them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lockbuild.errors import StaleLockError, UsageError
from lockbuild.events import Note
from lockbuild.model.belonging import misfits, tree_names
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import Lock, LockedTree, Source, Suite
from lockbuild.model.lockfile import canonical, dumps
from lockbuild.model.manifest import Manifest
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PathRequest
from lockbuild.resolve.context import Resolution, ResolveContext
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
from lockbuild.workflow.sync import materialised, sync
from lockbuild.workflow.toolchains import read_text
from lockbuild.workflow.workspace import Workspace


@dataclass(frozen=True, slots=True)
class LockOptions:
    """``upgrade`` names trees to resolve afresh (None: none, empty: all)."""

    upgrade: frozenset[str] | None = None
    allow_expired: bool = False


@dataclass(slots=True)
class _Parts:
    trees: list[LockedTree] = field(default_factory=list)
    sources: dict[tuple[str, str, str | None], Source] = field(default_factory=dict)
    suites: dict[tuple[str, str], Suite] = field(default_factory=dict)

    def add(self, trees: Iterable[LockedTree], sources: Iterable[Source], suites: Iterable[Suite]) -> None:
        self.trees.extend(trees)
        for source in sources:
            key = (source.purl, source.location, source.at)
            known = self.sources.get(key)
            if known is not None:
                both = sorted({*known.trees, *source.trees})
                source = source.model_copy(update={"trees": both, "sha256": source.sha256 or known.sha256})
            self.sources[key] = source
        for suite in suites:
            self.suites[suite.name, str(suite.inrelease)] = suite


def resolve_lock(workspace: Workspace, project: Project, options: LockOptions) -> tuple[Lock | None, Lock]:
    """The lock as it is (None where there is none) and as it should be. Writes nothing."""
    manifest = project.manifest
    workspace.hold_store()
    old = load_lock_if_any(project.paths)
    stale = _stale_trees(old, manifest, options)
    platforms = list(manifest.toolchain.platforms)
    parts = _Parts()
    _resolve(workspace, project, options, old, stale, platforms, parts)
    _derive_trees(manifest, platforms, parts)
    trees = _with_known_digests(old, parts, manifest)
    lock = Lock(
        manifest=manifest_record(manifest),
        suites=list(parts.suites.values()),
        trees=trees,
        sources=_with_known_sha256(old, parts.sources.values()),
        environments={
            key: value
            for key, value in (old.environments if old else {}).items()
            if old and _environment(old.trees, key) == _environment(trees, key)
        },
        claims=manifest.claims(),
        outputs={
            name: recorded
            for name, recorded in (old.outputs if old else {}).items()
            if name in manifest.project.targets
        },
    )
    return old, canonical(lock)


def _stale_trees(old: Lock | None, manifest: Manifest, options: LockOptions) -> set[str]:
    """The names of trees that must be resolved afresh."""
    names = [name for name in tree_names(manifest) if not name.startswith("derive.")]
    if options.upgrade is not None:
        wanted = set(names) if not options.upgrade else _named(options.upgrade, names)
    else:
        wanted = set()
    if old is None:
        return set(names)
    changed = [change.key for change in manifest_changes(old, manifest)]
    if any(key == "platforms" for key in changed):
        return set(names)
    wrong = {misfit.name for misfit in misfits(old, manifest)}
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


def _resolve(
    workspace: Workspace,
    project: Project,
    options: LockOptions,
    old: Lock | None,
    stale: set[str],
    platforms: list[Platform],
    parts: _Parts,
) -> None:
    from dataclasses import replace

    from lockbuild.resolve import resolve, target_of

    manifest = project.manifest
    context = ResolveContext(
        http=workspace.http,
        config=workspace.config,
        store=workspace.store,
        now=workspace.now,
        project=project.paths.directory,
        open_git=lambda: workspace.git,
        report=workspace.report,
        allow_expired=options.allow_expired,
    )
    resolved: dict[str, Resolution] = {}
    changed: set[str] = set()
    for name, request in manifest.requests().items():
        kept = None if old is None else _kept(old, name)
        needs = manifest.needs(request)
        if name not in stale and changed.isdisjoint(needs) and kept is not None:
            resolution = kept
        elif isinstance(request, PathRequest):
            resolution = Resolution((_path_tree(workspace, project, name, request),), ())
        else:
            workspace.report(Note(f"resolving {name}", level="debug"))
            resolution = resolve(name, request, platforms, replace(context, resolved=dict(resolved)))
        resolved[name] = resolution
        parts.add(resolution.trees, resolution.sources, resolution.suites)
        if kept is None or not _same(kept, resolution):
            changed.add(name)
        if name == "base":  # before everything else
            found = {platform: target_of(resolution.sources, platform) for platform in platforms}
            context = replace(context, targets=found)
            if old is not None and any(target_of(old.sources, p) != found[p] for p in platforms):
                # Another Python or glibc in the base: what was chosen for the old one may not run.
                stale |= {
                    f"tools.{key}"
                    for key, tool in manifest.toolchain.tools.items()
                    if tool.from_ in ("emsdk", "pypi")
                }


def _path_tree(workspace: Workspace, project: Project, name: str, request: PathRequest) -> LockedTree:
    from lockbuild.build.snapshot import snapshot

    digest = snapshot(project.paths.directory / request.path, workspace.store)
    mount = f"{SOURCES_DIR}/{name.partition('.')[2]}"
    return LockedTree(name=name, platform="any", unpack="path", mount=mount, digest=digest)


def _kept(old: Lock, name: str) -> Resolution | None:
    """A tree of the old lock with its sources and the indexes that those came from; None where it has none."""
    trees = [tree for tree in old.trees if tree.belongs_to(name)]
    ids = {tree.id for tree in trees}
    sources = [
        source.model_copy(update={"trees": [tree for tree in source.trees if tree in ids]})
        for source in old.sources
        if ids.intersection(source.trees)
    ]
    suites = [
        suite for suite in old.suites if any(f"distro={suite.codename}" in source.purl for source in sources)
    ]
    return Resolution(tuple(trees), tuple(sources), tuple(suites)) if trees else None


def _same(before: Resolution, after: Resolution) -> bool:
    """Whether two resolutions are of the same bytes and say the same of them."""
    return _gist(before) == _gist(after)


def _gist(resolution: Resolution) -> tuple[object, ...]:
    trees = {tree.id: _bare(tree) for tree in resolution.trees}
    return trees, {
        (source.purl, source.location, source.at, source.identity) for source in resolution.sources
    }


def _derive_trees(manifest: Manifest, platforms: Sequence[Platform], parts: _Parts) -> None:
    for name, derive in manifest.toolchain.derive.items():
        mount = derive.mount or f"/opt/{name}"
        for platform in platforms:
            parts.trees.append(
                LockedTree(
                    name=f"derive.{name}",
                    platform=platform,
                    unpack="derive",
                    mount=mount,
                    exports=dict(derive.exports),
                )
            )


def _with_known_digests(old: Lock | None, parts: _Parts, manifest: Manifest) -> list[LockedTree]:
    """The trees, each with the digest that the old lock has for it where nothing below it changed."""
    if old is None:
        return parts.trees
    changed_keys = {change.key for change in manifest_changes(old, manifest)}
    known = {tree.id: tree for tree in old.trees}
    contents = {tree.id: _contents(old.sources, tree) for tree in old.trees}
    result: list[LockedTree] = []
    same_below: dict[Platform | str, bool] = {}
    for tree in parts.trees:
        before = known.get(tree.id)
        unchanged = before is not None and _bare(before) == _bare(tree)
        if tree.unpack == "derive":
            section = f"{tree.name}."
            unchanged &= not any(key.startswith(section) for key in changed_keys)
            unchanged &= same_below.get(tree.platform, True)
        elif tree.unpack != "path":
            unchanged &= contents.get(tree.id) == _contents(parts.sources.values(), tree)
        if not tree.name.startswith("sources."):
            same_below[tree.platform] = same_below.get(tree.platform, True) and unchanged
        if unchanged and before is not None and tree.digest is None:
            tree = tree.model_copy(update={"digest": before.digest})
        result.append(tree)
    return result


def _with_known_sha256(old: Lock | None, sources: Iterable[Source]) -> list[Source]:
    """The sources with the SHA-256 that materialising the old lock found of those bound otherwise."""
    known = {source.identity: source.sha256 for source in (old.sources if old else ())}
    return [
        source.model_copy(update={"sha256": source.sha256 or known.get(source.identity)})
        for source in sources
    ]


def _bare(tree: LockedTree) -> LockedTree:
    return tree.model_copy(update={"digest": None})


def _contents(sources: Iterable[Source], tree: LockedTree) -> list[tuple[str, str]]:
    return sorted((source.purl, str(source.identity)) for source in sources if tree.id in source.trees)


def _environment(trees: Iterable[LockedTree], platform: str) -> list[tuple[str, str, str]]:
    return sorted(
        (tree.name, str(tree.digest), repr(sorted(tree.exports.items())))
        for tree in trees
        if str(tree.platform) == platform and not tree.name.startswith("sources.")
    )


def update_lock(
    workspace: Workspace,
    project: Project,
    options: LockOptions,
    *,
    dry_run: bool = False,
    platforms: Sequence[Platform] = (),
) -> tuple[Lock | None, Lock]:
    """Resolve, materialise for ``platforms``, and write the lock unless ``dry_run``; the old and the new lock."""
    old, new = resolve_lock(workspace, project, options)
    for platform in platforms:
        new = canonical(materialised(new, sync(workspace, project, new, platform, load=False)))
    if not dry_run:
        write_lock(project.paths, new)
    return old, new


def check_lock(project: Project) -> list[KeyChange]:
    """What keeps the lock from being current: keys of the manifest that changed. Reads two files, no network.

    UsageError where there is no lock; StaleLockError where its text is not as lockbuild writes it, or its trees are
    not those of the manifest.
    """
    lock = load_lock(project.paths)
    changes = manifest_changes(lock, project.manifest)
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
