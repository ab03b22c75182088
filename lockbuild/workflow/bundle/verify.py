"""``lockbuild bundle verify|inspect``: a bundle, only looked at. Needs no store and no project."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.oci.bundle.contents import BundledTree, Contents
from lockbuild.oci.bundle.read import Section
from lockbuild.oci.decompress import decompress
from lockbuild.workflow.bundle.blobs import by_layer, progress, sha512_bindings
from lockbuild.workflow.bundle.files import read_bundle
from lockbuild.workflow.workspace import Workspace


def verify(workspace: Workspace, files: Sequence[Path]) -> Contents:
    """Read all of it: every blob has its digest, every layer is the tree that it says, nothing else is there."""
    with read_bundle(files) as reader:
        trees = by_layer(reader.contents)
        sha512 = _sha512(reader.contents, reader.lock)
        with progress(workspace, reader, "verify") as chunks:
            for section in reader.sections():
                for tree in trees.get(section.digest, ())[:1]:
                    with decompress(chunks(section), name=section.label, limit=tree.size) as plain:
                        _check_tree(plain, tree, section)
                if section.digest in sha512:
                    check_sha512(chunks(section), sha512[section.digest], section)
        return reader.contents


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a bundle says of itself; its index and its contents belong to its lock, its blobs were not read."""

    contents: Contents
    lock: Lock
    lock_text: str


def inspect(files: Sequence[Path]) -> Inspected:
    """Read what stands before the blobs; of parts, the first is enough."""
    with read_bundle(files, head_only=True) as reader:
        return Inspected(reader.contents, reader.lock, reader.lock_text.decode())


def _sha512(contents: Contents, lock: Lock) -> dict[Digest, list[str]]:
    bindings = sha512_bindings(contents, lock)
    return {
        digest: [source.sha512 for source in sources if source.sha512 is not None]
        for digest, sources in bindings.items()
    }


def _check_tree(plain: Iterator[bytes], tree: BundledTree, section: Section) -> None:
    hasher = hashlib.sha256()
    size = 0
    for piece in plain:
        hasher.update(piece)
        size += len(piece)
    if size != tree.size or hasher.hexdigest() != tree.digest.hex:
        raise IntegrityError(
            f"{section.label} unpacks to another tree: sha256:{hasher.hexdigest()}, {size:,} bytes",
            on=tree.names[0],
            hint="the bundle was not made by lockbuild, or is damaged: get it again from whoever made it",
        )


def check_sha512(chunks: Iterator[bytes], wanted: Sequence[str], section: Section) -> None:
    """IntegrityError where the blob does not have all of these SHA-512 digests."""
    hasher = hashlib.sha512()
    for chunk in chunks:
        hasher.update(chunk)
    if any(hasher.hexdigest() != digest for digest in wanted):
        raise IntegrityError(
            f"{section.label} does not have the SHA-512 that the lock says: it is {hasher.hexdigest()}"
        )
