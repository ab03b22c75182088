"""Which blob of a bundle is what, and the blobs as they come, counted for the progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.events import Advanced, Finished, Started
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, Source
from lockbuild.oci.bundle.binding import bound_sources
from lockbuild.oci.bundle.contents import BundledTree, Contents
from lockbuild.oci.bundle.read import BundleReader, Section
from lockbuild.workflow.workspace import Workspace


class Chunks:
    """A section's pieces, counted for the progress."""

    def __init__(self, workspace: Workspace, task: str) -> None:
        self._report = workspace.report
        self._task = task

    def __call__(self, section: Section) -> Iterator[bytes]:
        for chunk in section.chunks():
            self._report(Advanced(self._task, len(chunk)))
            yield chunk

    def passed(self, section: Section) -> None:
        """It is there already."""
        self._report(Advanced(self._task, section.size))


@contextmanager
def progress(workspace: Workspace, reader: BundleReader, verb: str) -> Iterator[Chunks]:
    task = f"bundle:{reader.name}"
    total = sum(blob.size for _, blob in reader.contents.held())
    workspace.report(Started(task, f"{verb} {Path(reader.name).name}", total))
    try:
        yield Chunks(workspace, task)
    finally:
        workspace.report(Finished(task))


def by_layer(contents: Contents) -> dict[Digest, list[BundledTree]]:
    trees: dict[Digest, list[BundledTree]] = {}
    for tree in contents.trees:
        if tree.layer is not None:
            trees.setdefault(tree.layer.digest, []).append(tree)
    return trees


def sha512_bindings(contents: Contents, lock: Lock) -> dict[Digest, list[Source]]:
    """The sources that only their SHA-512 binds: what comes must have that, and is remembered by it."""
    bound = bound_sources(lock)
    found: dict[Digest, list[Source]] = {}
    for source in contents.sources:
        for purl in source.purls:
            for other in bound.get(purl, ()):
                if other.sha256 is None and other.sha512 is not None:
                    found.setdefault(source.digest, []).append(other)
    return found
