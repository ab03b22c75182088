"""``lockbuild bundle load``: a bundle into the store.

Loading streams. Whatever gets a name in the store was verified against a digest that the bundle's lock names; what is
half there is no one's until it is. So a bundle that proves to be bad in the middle leaves only what was good, and one
that is cut off is gone on with: what the store has is not taken again.

Only bytes are taken from a bundle, never what it says of them: which sources a tree was made of, or which file a
commit is, stays for the lock of the project to say, which records it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockbuild.errors import FetchError, IntegrityError, UsageError
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.oci.bundle.contents import BundledTree, Contents
from lockbuild.oci.bundle.read import BundleReader, CutShortError, Section
from lockbuild.oci.layers import decode
from lockbuild.store import Store
from lockbuild.store.partial import Binding, Partial
from lockbuild.workflow.bundle.blobs import Chunks, by_layer, progress, sha512_bindings
from lockbuild.workflow.bundle.files import read_bundle
from lockbuild.workflow.bundle.needs import lacking
from lockbuild.workflow.bundle.verify import check_sha512
from lockbuild.workflow.documents import add_documents
from lockbuild.workflow.project import load_lock
from lockbuild.workflow.workspace import ProjectPaths, Workspace

_SLACK = 64 << 20
"""Bytes that nobody counts."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came into the store: ids of trees, package URLs of sources; ``there`` counts what it had already.

    ``missing`` names what the bundle leaves out and the store lacks, ``project_missing`` what the project's lock
    needs beyond that; None where no project was named.
    """

    contents: Contents
    trees: tuple[str, ...]
    sources: tuple[str, ...]
    there: int
    missing: tuple[str, ...]
    project_missing: tuple[str, ...] | None = None


def load(workspace: Workspace, files: Sequence[Path], paths: ProjectPaths | None = None) -> Loaded:
    """Take what ``files`` hold (a bundle, or all its parts in any order; ``-`` is standard input) into the store.

    With ``paths`` it is looked whether the project's lock has all that it needs. IntegrityError where the bundle is
    not sound, holds what its lock does not name, or is cut short; FetchError where the store has no room.
    """
    workspace.hold_store()
    with read_bundle(files) as reader:
        loaded = _Loading(workspace, reader).run()
    if paths is None:
        return loaded
    return _compared(workspace, loaded, paths)


class _Loading:
    def __init__(self, workspace: Workspace, reader: BundleReader) -> None:
        self._workspace = workspace
        self._store = workspace.store
        self._reader = reader
        self._contents = reader.contents
        self._trees = by_layer(reader.contents)
        self._files = _files(reader.contents)
        self._bound = sha512_bindings(reader.contents, reader.lock)
        self._made: list[str] = []
        self._stored: list[str] = []
        self._there = 0

    def run(self) -> Loaded:
        self._require_room()
        with progress(self._workspace, self._reader, "load") as chunks:
            for section in self._reader.sections():
                self._take(section, chunks)
        documents = {
            document.name: document.digest
            for document in self._contents.documents
            if self._store.has_blob(document.digest)
        }
        if documents:
            add_documents(self._store, documents)
        return Loaded(
            self._contents,
            tuple(sorted(self._made)),
            tuple(sorted(self._stored)),
            self._there,
            tuple(missing(self._store, self._contents)),
        )

    def _take(self, section: Section, chunks: Chunks) -> None:
        trees = [
            tree for tree in self._trees.get(section.digest, ()) if not self._store.has_tree(tree.digest)
        ]
        names = self._files.get(section.digest)
        if not trees and (names is None or self._has_file(section.digest)):
            self._there += 1
            chunks.passed(section)
            section.skip()
        elif names is None:
            self._make_tree(chunks(section), trees[0], section)
        else:
            if self._has_file(section.digest):
                section.skip()
            else:
                self._store_file(section, chunks)
                self._stored.extend(names)
            for tree in trees:  # a source whose tar is not compressed can be a layer, too
                self._make_tree(self._store.blob_path(section.digest), tree, section)

    def _has_file(self, digest: Digest) -> bool:
        """Whether it is there, and known by all that binds it."""
        return self._store.has_blob(digest) and all(
            self._store.recall(source.identity) == digest for source in self._bound.get(digest, ())
        )

    def _make_tree(self, source: Path | Iterator[bytes], tree: BundledTree, section: Section) -> None:
        decode(
            self._store, source, tree.digest, name=f"{self._reader.name}: {section.label}", limit=tree.size
        )
        self._made.extend(tree.names)

    def _store_file(self, section: Section, chunks: Chunks) -> None:
        bound = self._bound.get(section.digest, [])
        if bound and self._store.has_blob(section.digest):
            check_sha512(chunks(section), [source.sha512 or "" for source in bound], section)
        elif bound:
            with self._store.partial(Binding(bound[0].identity, section.digest, bound[0].sha512)) as partial:
                self._receive(section, chunks, partial)
        else:
            with self._store.partial(section.digest) as partial:
                self._receive(section, chunks, partial)
        for source in bound:
            self._store.remember(source.identity, section.digest)

    def _receive(self, section: Section, chunks: Chunks, partial: Partial) -> None:
        """What is not there yet of the file, which an earlier load may have begun."""
        if partial.complete:
            section.skip()
            return
        if partial.size > section.size:
            partial.restart()
        have = partial.size
        try:
            for chunk in chunks(section):
                if have < len(chunk):
                    partial.write(memoryview(chunk)[have:])
                have = max(0, have - len(chunk))
        except CutShortError:
            raise
        except IntegrityError:
            partial.discard()
            raise
        try:
            partial.commit()
        except IntegrityError as error:
            raise IntegrityError(
                f"{section.label} is not what it should be: {error.what}",
                on=self._reader.name,
                hint="load it again, if an earlier load was cut off: what that had left is dropped now",
            ) from None

    def _require_room(self) -> None:
        need = sum(
            tree.size
            for tree in self._contents.trees
            if tree.layer is not None and not self._store.has_tree(tree.digest)
        )
        need += sum(
            source.size
            for source in self._contents.sources
            if source.held and not self._store.has_blob(source.digest)
        )
        root = self._store.root
        while not root.is_dir():
            root = root.parent
        free = os.statvfs(root)
        room = free.f_bavail * free.f_frsize
        if need > _SLACK and need > room:
            raise FetchError(
                f"what the bundle holds takes {need:,} bytes, and there is room for {room:,}",
                on=str(self._store.root),
                hint="free some space (`lockbuild store gc` removes what no lock needs), "
                "or name another place with --store DIR",
            )


def missing(store: Store, contents: Contents) -> Iterator[str]:
    """What a bundle leaves out and the store lacks: ids of trees, package URLs."""
    for tree in contents.trees:
        if tree.layer is None and not store.has_tree(tree.digest):
            yield from tree.names
    for source in contents.sources:
        if not source.held and not store.has_blob(source.digest):
            yield from source.purls
    for document in contents.documents:
        if not document.held and not store.has_blob(document.digest):
            yield document.name


def _compared(workspace: Workspace, loaded: Loaded, paths: ProjectPaths) -> Loaded:
    """With what the project's lock needs and the store still lacks; what it has is kept for it from now on."""
    lock = load_lock(paths)
    platforms = [platform for platform in loaded.contents.platforms if platform in locked_platforms(lock)]
    if not platforms:
        raise UsageError(
            f"the project's lock is not for {', '.join(map(str, loaded.contents.platforms))}, as the bundle is",
            on=str(paths.lock),
        )
    found = lacking(workspace.store, lock, platforms)
    trees = [tree.digest for tree in lock.trees if tree.digest is not None]
    workspace.store.add_root(paths.lock, [digest for digest in trees if workspace.store.has_tree(digest)])
    return replace(loaded, project_missing=tuple(found))


def _files(contents: Contents) -> dict[Digest, list[str]]:
    """The blobs that the store keeps as they are, with what they are called."""
    files = {source.digest: source.purls for source in contents.sources if source.held}
    for digest, name in (
        *((blob.digest, "signed index") for blob in contents.signatures),
        *((document.digest, document.name) for document in contents.documents if document.held),
    ):
        files[digest] = [*files.get(digest, ()), name]
    return files
