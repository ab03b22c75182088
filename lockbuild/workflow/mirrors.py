"""Mirrors by digest, asked for derived trees before those are derived: what takes minutes to make comes in seconds.

Sources come from there anyway (`lockbuild.fetch`), and other trees are made of them as fast as they would come. As
from a cache, only what the lock binds is taken: a tree whose digest it records.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockbuild.model.lock import LockedTree
from lockbuild.workflow.cache import UNPACKED_AT_ONCE, missing_trees
from lockbuild.workflow.workspace import Workspace


def fetch_derived(workspace: Workspace, trees: Iterable[LockedTree]) -> None:
    """Make what it can of the derived trees among ``trees`` that the store lacks and the lock records.

    A mirror is a help and no need (`lockbuild.workflow.helpful`). FetchError where the store cannot take it.
    """
    missing = missing_trees(workspace.store, (tree for tree in trees if tree.unpack == "derive"))
    if not missing:
        return
    mirrors = [mirror for mirror in workspace.config.mirrors if mirror.by_digest is not None]
    if not mirrors:
        return
    from lockbuild.oci.mirror import TreeMirror
    from lockbuild.transport.transfers import Transfers
    from lockbuild.workflow.helpful import HelpfulPlaces

    transfers = Transfers()
    places: HelpfulPlaces[TreeMirror] = HelpfulPlaces("mirror", transfers, workspace.report)
    asked = [
        TreeMirror(mirror, workspace.http, workspace.store, transfers, workspace.report) for mirror in mirrors
    ]

    def fetch(tree: LockedTree) -> None:
        digest = tree.digest
        assert digest is not None
        places.first(asked, tree.name, lambda mirror: mirror.fetch_tree(digest, tree.name))

    transfers.each(missing, fetch, connections=UNPACKED_AT_ONCE, name="mirror-trees")
