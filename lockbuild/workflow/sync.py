"""``lockbuild sync``: make the lock real. Fetch, verify, materialise, derive; for an engine, load the image.

Digests that the lock records bind: whatever comes out otherwise is an integrity failure that shows both. A tree
that the store already has under the recorded digest, or under the recipe of its sources, is not made again; nor is
one whose recorded digest a cache has, or, where it would be derived, a mirror by digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lockbuild.environment.compose import compose, in_environment
from lockbuild.environment.materialise import materialise, recipe
from lockbuild.errors import StaleLockError, UsageError
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.model.lock import Lock, LockedEnvironment, LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.store.sources import known_blob
from lockbuild.workflow.consistency import check_environment
from lockbuild.workflow.derive import derive_tree
from lockbuild.workflow.image import (
    environment_image,
    image_in_engine,
    load_image,
    locked_image,
    require_recorded,
    require_recorded_id,
)
from lockbuild.workflow.mirrors import fetch_derived
from lockbuild.workflow.project import Project
from lockbuild.workflow.project_files import store_patches
from lockbuild.workflow.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Synced:
    """What a lock was made into.

    ``image`` has the digests of its image, ``image_id`` is the one that an engine runs it by. ``trees`` has
    every tree's digest by tree id, ``sources`` those of project sources by name; ``blobs`` the SHA-256 of what
    was fetched by the identity of its source; ``made`` names the trees that had to be made.
    """

    environment: Environment
    image: LockedEnvironment
    image_id: Digest
    trees: dict[str, Digest]
    sources: dict[str, Digest]
    blobs: dict[Digest, Digest]
    made: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """What ``lockbuild sync --json`` prints."""
        return {
            "platform": str(self.environment.platform),
            "image": str(self.image.image),
            "manifest": str(self.image.manifest),
            "trees": {name: str(digest) for name, digest in sorted(self.trees.items())},
            "made": list(self.made),
        }


def sync(
    workspace: Workspace, project: Project, lock: Lock, platform: Platform, *, load: bool = True
) -> Synced:
    """Make ``lock`` real for ``platform``. With ``load`` and an engine as back-end its image is there afterwards.

    FetchError, IntegrityError; BuildError where a derived tool's steps fail; StaleLockError where a directory
    of the project is not as it was locked.
    """
    there = locked_platforms(lock)
    if platform not in there:
        raise UsageError(
            f"the lock is not for {platform} (it is for {', '.join(map(str, there))})",
            on=str(project.paths.lock),
            hint=f"run `lockbuild lock --platform {platform}`, which adds it and keeps every other pin",
        )
    check_environment(lock, platform)
    workspace.hold_store()
    store_patches(lock, project.paths.directory, workspace.store)
    wanted = [tree for tree in lock.trees if tree.platform in (platform, "any")]
    if workspace.cache is not None:
        workspace.cache.fetch_trees(wanted)
    digests, made = _from_sources(workspace, lock, wanted)
    for tree in wanted:
        if tree.unpack == "path":
            digests[tree.id] = _project_directory(workspace, project, tree)
    layers = [(tree, digests[tree.id]) for tree in in_environment(wanted) if tree.unpack != "derive"]
    fetch_derived(workspace, wanted)
    for name in project.manifest.toolchain.derive:
        tree = lock.tree(f"derive.{name}", platform)
        digest, fresh = derive_tree(workspace, project, tree, layers, digests)
        digests[tree.id] = digest
        if fresh:
            made.append(tree.name)
    layers = [(tree, digests[tree.id]) for tree in in_environment(wanted)]
    environment = compose(workspace.store, platform, layers)
    image, image_id = _image(workspace, project, lock, environment, load=load)
    workspace.store.add_root(project.paths.lock, digests.values())
    if workspace.cache is not None:
        workspace.cache.keep((digests[tree.id], tree.name) for tree in wanted if tree.name in made)
    return Synced(
        environment=environment,
        image=image,
        image_id=image_id,
        trees=digests,
        sources={
            tree.name.partition(".")[2]: digests[tree.id]
            for tree in wanted
            if tree.name.startswith("sources.")
        },
        blobs={
            source.identity: blob
            for source in lock.sources
            if (blob := known_blob(workspace.store, source)) is not None
        },
        made=tuple(made),
    )


def materialised(lock: Lock, synced: Synced) -> Lock:
    """The lock with every digest that ``synced`` found out."""
    trees = [
        tree.model_copy(update={"digest": synced.trees.get(tree.id, tree.digest)}) for tree in lock.trees
    ]
    sources = [
        source.model_copy(update={"sha256": synced.blobs.get(source.identity, source.sha256)})
        for source in lock.sources
    ]
    environments = {**lock.environments, str(synced.environment.platform): synced.image}
    return lock.model_copy(update={"trees": trees, "sources": sources, "environments": environments})


def _from_sources(
    workspace: Workspace, lock: Lock, trees: Iterable[LockedTree]
) -> tuple[dict[str, Digest], list[str]]:
    """The trees that are unpacked from fetched files: their digests, and the names of those made now."""
    digests: dict[str, Digest] = {}
    missing: list[LockedTree] = []
    for tree in trees:
        if tree.unpack in ("derive", "path"):
            continue
        digest = tree.digest or workspace.store.recall(recipe(tree, lock.sources_of(tree)))
        if digest is not None and workspace.store.has_tree(digest):
            digests[tree.id] = digest
        else:
            missing.append(tree)
    if missing:
        fetch_sources(workspace, lock, [source for tree in missing for source in lock.sources_of(tree)])
        with ThreadPoolExecutor(max_workers=2) as pool:
            made = pool.map(
                lambda tree: materialise(
                    workspace.store, tree, lock.sources_of(tree), report=workspace.report
                ),
                missing,
            )
            digests.update(zip((tree.id for tree in missing), made, strict=True))
    return digests, [tree.name for tree in missing]


def fetch_sources(workspace: Workspace, lock: Lock, sources: Iterable[Source]) -> None:
    """Bring what the store lacks of the lock's ``sources`` into it; as `Fetcher.fetch`."""
    from lockbuild.fetch import Fetcher

    wanted = {source.identity: source for source in sources}
    if workspace.cache is not None:
        workspace.cache.fetch_sources(wanted.values())
    commits = any(source.commit is not None for source in wanted.values())
    images = any(source.purl.startswith("pkg:oci/") for source in wanted.values())
    fetcher = Fetcher(
        workspace.store,
        workspace.http,
        workspace.config,
        report=workspace.report,
        suites=lock.suites,
        repositories=workspace.git if commits else None,
        registries=workspace.registries if images else None,
        references={
            tree.pins["commit"]: tree.pins["ref"]
            for tree in lock.trees
            if {"commit", "ref"} <= tree.pins.keys()
        },
    )
    fetcher.fetch(wanted.values())


def _project_directory(workspace: Workspace, project: Project, tree: LockedTree) -> Digest:
    from lockbuild.build.snapshot import snapshot
    from lockbuild.model.requests import PathRequest

    request = project.manifest.project.sources[tree.name.partition(".")[2]]
    assert isinstance(request, PathRequest)
    digest = snapshot(
        project.paths.directory / request.path,
        workspace.store,
        named=f"{project.paths.manifest}: {tree.name}.path",
        within=project.paths.directory,
        excluded=project.paths.never_source(None),
    )
    if digest != tree.digest:
        raise StaleLockError(
            f"{request.path} changed since it was locked: {tree.digest} -> {digest}",
            on=f"{project.paths.manifest}: {tree.name}",
            hint=f"run `lockbuild lock --upgrade {tree.name}`",
        )
    return digest


def _image(
    workspace: Workspace, project: Project, lock: Lock, environment: Environment, *, load: bool
) -> tuple[LockedEnvironment, Digest]:
    """The environment's image, loaded where the back-end runs images; it must be the one that the lock records.

    Its ID is always compared. A manifest, for which the sizes of all files must be known, only where it is needed.
    """
    require_recorded_id(project, lock, environment)
    recorded = lock.environments.get(str(environment.platform))
    if recorded is not None:
        identity = image_in_engine(workspace, recorded) if load else recorded.image
        if identity is not None:
            return recorded, identity
    image = environment_image(project, environment, lock)
    require_recorded(project, lock, image, "none")
    identity = load_image(workspace, project, environment, image) if load else image.config_digest
    return recorded or locked_image(image), identity
