"""Every request of a manifest to what it is locked to: kept, resolved afresh, or resolved for a new platform."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lockbuild.events import Note
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import Lock, LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PathRequest, Request
from lockbuild.resolve import looked_into, moved_tags, resolve, target_of
from lockbuild.resolve.age import remarks
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.workflow.parts import kept, same, together
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace


@dataclass(frozen=True, slots=True)
class LockOptions:
    """``upgrade`` names trees to resolve afresh (None: none, empty: all); ``platforms`` are those to have beside the
    manifest's; ``not_after`` (aware) asks to ignore what was released later."""

    upgrade: frozenset[str] | None = None
    allow_expired: bool = False
    platforms: tuple[Platform, ...] = ()
    not_after: datetime | None = None

    def upgrades(self, name: str) -> bool:
        """Whether the tree called ``name`` is to be resolved afresh because the user says so."""
        if self.upgrade is None:
            return False
        return not self.upgrade or not self.upgrade.isdisjoint((name, name.partition(".")[2]))


def resolve_all(
    workspace: Workspace,
    project: Project,
    options: LockOptions,
    old: Lock | None,
    stale: Collection[str],
    platforms: Sequence[Platform],
) -> dict[str, Resolution]:
    """What each request is locked to, by its key in the manifest, for all ``platforms``.

    What is not ``stale`` stays as ``old`` has it; for platforms that this lacks it is resolved, and nothing else.
    What depends on a tree that changed is resolved afresh with it.
    """
    manifest = project.manifest
    context = ResolveContext(
        http=workspace.http,
        config=workspace.config,
        store=workspace.store,
        now=workspace.now,
        project=project.paths.directory,
        open_git=lambda: workspace.git,
        open_registries=lambda: workspace.registries,
        report=workspace.report,
        allow_expired=options.allow_expired,
        not_after=options.not_after,
    )
    stale = set(stale)
    resolved: dict[str, Resolution] = {}
    changed: set[str] = set()

    def afresh(
        name: str, request: Request, wanted: Sequence[Platform], context: ResolveContext
    ) -> Resolution:
        trusted = {} if old is None or options.upgrades(name) else _trusted(old, name)
        context = replace(context, resolved=dict(resolved), trusted=trusted)
        return _resolved(workspace, project, name, request, wanted, context)

    targets_wanted = any(request.chosen_for_base for request in manifest.requests().values())

    def looked(name: str, resolution: Resolution) -> Resolution:
        return looked_into(resolution, context) if name == "base" and targets_wanted else resolution

    for name, request in manifest.requests().items():
        before = None if old is None else kept(old, name)
        if before is None or name in stale or not changed.isdisjoint(manifest.needs(request)):
            resolution = looked(name, afresh(name, request, platforms, context))
            if before is None or not same(before, resolution):
                changed.add(name)
            for move in moved_tags(before, resolution) if before is not None else ():
                workspace.report(Note(move, level="warning"))
        elif lacking := _lacking(before, platforms):
            more = afresh(name, request, lacking, replace(context, kept=before))
            resolution = looked(name, together(before, more))
        else:
            resolution = looked(name, before)
        resolved[name] = resolution
        if name == "base":  # before everything else
            found = {p: target_of(resolution.sources, p, resolution.trees) for p in platforms}
            context = replace(context, targets=found)
            if old is not None and any(
                target_of(old.sources, p, old.trees) != found[p] for p in locked_platforms(old)
            ):
                # Another Python or C library in the base: what was chosen for the old one may not run.
                stale |= {key for key, other in manifest.requests().items() if other.chosen_for_base}
    return resolved


def _trusted(old: Lock, name: str) -> dict[str, Source]:
    """What the request under ``name`` was locked to by trusting it on first use, by URL."""
    before = kept(old, name)
    sources = before.sources if before is not None else ()
    return {source.url: source for source in sources if source.trust is not None and source.url is not None}


def _lacking(resolution: Resolution, platforms: Sequence[Platform]) -> list[Platform]:
    """The platforms that it has no tree for."""
    there = {tree.platform for tree in resolution.trees}
    return [] if "any" in there else [platform for platform in platforms if platform not in there]


def _resolved(
    workspace: Workspace,
    project: Project,
    name: str,
    request: Request,
    platforms: Sequence[Platform],
    context: ResolveContext,
) -> Resolution:
    if isinstance(request, PathRequest):
        return Resolution((_path_tree(workspace, project, name, request),), ())
    workspace.report(Note(f"resolving {name}", level="debug"))
    resolution = resolve(name, request, platforms, context)
    for remark in remarks(name, resolution, context):
        workspace.report(Note(f"younger than --min-age allows, or of unknown age: {remark}", level="warning"))
    return resolution


def _path_tree(workspace: Workspace, project: Project, name: str, request: PathRequest) -> LockedTree:
    from lockbuild.build.snapshot import snapshot

    digest = snapshot(
        project.paths.directory / request.path,
        workspace.store,
        named=f"{project.paths.manifest}: {name}.path",
        within=project.paths.directory,
        excluded=project.paths.never_source(None),
    )
    mount = f"{SOURCES_DIR}/{name.partition('.')[2]}"
    return LockedTree(name=name, platform="any", unpack="path", mount=mount, digest=digest)
