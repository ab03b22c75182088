"""``lockbuild store``: verify what is there, and let go of what no lock needs."""

from __future__ import annotations

from lockbuild.store import Collected, Damage
from lockbuild.workflow.workspace import Workspace


def verify(workspace: Workspace, *, repair: bool) -> list[Damage]:
    """Hash everything again; what is damaged, and with ``repair`` removed."""
    return workspace.store.verify(workspace.report, repair=repair)


def collect(workspace: Workspace, *, dry_run: bool) -> Collected:
    """Remove every blob and tree that the locks which were synced with this store do not need."""
    return workspace.store.collect(dry_run=dry_run)
