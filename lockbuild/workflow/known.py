"""What a lock names as far as the store has it already: nothing is fetched, made or written."""

from __future__ import annotations

from lockbuild.environment.compose import compose, in_environment
from lockbuild.environment.materialise import recipe
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.workflow.derive import derive_plan
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace


def known_trees(workspace: Workspace, project: Project, lock: Lock, platform: Platform) -> dict[str, Digest]:
    """The trees for ``platform`` that are in the store: their digests by tree id."""
    store = workspace.store
    wanted = [tree for tree in lock.trees if tree.platform in (platform, "any")]
    digests: dict[str, Digest] = {}
    for tree in wanted:
        if tree.unpack == "derive":
            continue
        digest = tree.digest or store.recall(recipe(tree, lock.sources_of(tree)))
        if digest is not None and store.has_tree(digest):
            digests[tree.id] = digest
    below = [tree for tree in in_environment(wanted) if tree.unpack != "derive"]
    layers = [(tree, digests[tree.id]) for tree in below if tree.id in digests]
    for name, derive in project.manifest.toolchain.derive.items():
        tree = lock.tree(f"derive.{name}", platform)
        digest = tree.digest
        needed = all(f"{platform}:derive.{need}" in digests for need in derive.needs)
        if digest is None and needed and len(layers) == len(below):
            digest = store.recall(derive_plan(workspace, project, tree, layers, digests)[1].digest())
        if digest is not None and store.has_tree(digest):
            digests[tree.id] = digest
    return digests


def known_environment(
    workspace: Workspace, project: Project, lock: Lock, platform: Platform
) -> Environment | None:
    """The environment for ``platform``, if every tree of it is in the store; else None."""
    standing = list(in_environment(tree for tree in lock.trees if tree.platform in (platform, "any")))
    digests = known_trees(workspace, project, lock, platform)
    if any(tree.id not in digests for tree in standing):
        return None
    return compose(workspace.store, platform, [(tree, digests[tree.id]) for tree in standing])
