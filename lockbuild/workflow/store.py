"""``lockbuild store``: verify what is there, and let go of what no lock needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import UsageError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lockfile import loads
from lockbuild.store.sources import known_blob
from lockbuild.workflow.documents import kept_blobs
from lockbuild.workflow.toolchains import read_text
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.store.collect import Collected
    from lockbuild.store.verify import Damage


def verify(workspace: Workspace, *, repair: bool) -> list[Damage]:
    """Hash everything again; what is damaged, and with ``repair`` removed."""
    return workspace.store.verify(workspace.report, repair=repair)


def collect(workspace: Workspace, *, dry_run: bool) -> Collected:
    """Remove every blob and tree that no lock needs that was synced with this store.

    What an unsound lock needs is not known, so it is a UsageError and nothing is removed. One that this user may not
    read keeps the trees that were noted for it, and every blob; that is warned of.
    """
    return workspace.store.collect(
        lambda: _needed(workspace),
        dry_run=dry_run,
        waiting=lambda: workspace.report(Note("waiting for the commands that use the store")),
    )


def _needed(workspace: Workspace) -> tuple[set[Digest], set[Digest]]:
    """The blobs and trees of all known locks."""
    blobs: set[Digest] = set()
    trees: set[Digest] = set()
    for root in workspace.store.roots():
        path = root.lock
        trees.update(root.trees)
        if _is_closed(path):
            workspace.report(
                Note(
                    f"{path}: this lock may not be read, so its trees and all blobs are kept\n"
                    "hint: run this as a user who may read it, or remove the lock if it is not needed",
                    level="warning",
                )
            )
            blobs.update(workspace.store.blobs())
            continue
        text = read_text(path)
        if text is None:
            continue
        try:
            lock = loads(text, str(path))
        except UsageError as error:
            raise UsageError(
                f"what this lock needs is not known: {error.what}",
                on=str(path),
                hint="restore the lock or remove it; nothing was removed from the store",
            ) from None
        blobs.update(filter(None, (known_blob(workspace.store, source) for source in lock.sources)))
        blobs.update(source.identity for source in lock.sources)  # downloads under way go by it
        blobs.update(file.sha256 for outputs in lock.outputs.values() for file in outputs.files)
        for tree in lock.trees:
            if tree.digest is not None:
                trees.add(tree.digest)
    return blobs | kept_blobs(workspace.store), trees


def _is_closed(lock: Path) -> bool:
    """Whether it, or a directory above it, is closed to this user."""
    try:
        os.close(os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:
        return False
    return False
