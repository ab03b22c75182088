"""The environment of a lock as far as the store has it already: nothing is fetched, made or written."""

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


def known_environment(
    workspace: Workspace, project: Project, lock: Lock, platform: Platform
) -> Environment | None:
    """The environment for ``platform``, if every tree of it is in the store; else None."""
    store = workspace.store
    standing = in_environment(tree for tree in lock.trees if tree.platform in (platform, "any"))
    digests: dict[str, Digest] = {}

    def found(name: str, digest: Digest | None) -> bool:
        if digest is None or not store.has_tree(digest):
            return False
        digests[name] = digest
        return True

    for tree in standing:
        if tree.unpack != "derive":
            known = tree.digest or store.recall(recipe(tree, lock.sources_of(tree)))
            if not found(tree.id, known):
                return None
    layers = [(tree, digests[tree.id]) for tree in standing if tree.unpack != "derive"]
    for name in project.manifest.toolchain.derive:
        tree = lock.tree(f"derive.{name}", platform)
        known = tree.digest
        if known is None:
            known = store.recall(derive_plan(workspace, project, tree, layers, digests)[1].digest())
        if not found(tree.id, known):
            return None
    return compose(store, platform, [(tree, digests[tree.id]) for tree in standing])
