"""Whether a bundle holds nothing but what its lock names.

A lock is a list of digests: that is all that makes a bundle worth believing. What it does not name is refused before
any of it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedEnvironment, Source
from lockbuild.oci.bundle.contents import BundledImage, Contents


def strangers(contents: Contents, lock: Lock) -> Iterator[str]:
    """What the contents have, or say, that the lock does not: a phrase for each."""
    known = set(locked_platforms(lock))
    for platform in contents.platforms:
        if platform not in known:
            yield f"the lock is not for {platform}"
    yield from _unsorted(contents)
    trees = {tree.id: tree.digest for tree in lock.trees if tree.digest is not None}
    for bundled in contents.trees:
        for name in bundled.names:
            if trees.get(name) != bundled.digest:
                yield f"the lock names no tree {name!r} of the digest {bundled.digest}"
    bound = bound_sources(lock)
    for source in contents.sources:
        for purl in source.purls:
            if not any(_is(source.digest, other) for other in bound.get(purl, ())):
                yield f"the lock names no source {purl!r} of the digest {source.digest}"
        sizes = {
            other.size for purl in source.purls for other in bound.get(purl, ()) if other.size is not None
        }
        if sizes and source.size not in sizes:
            yield f"the source {source.purls[0]!r} has {source.size} bytes, and not as many as the lock says"
    for image in contents.images:
        recorded = lock.environments.get(str(image.platform))
        if image.platform not in contents.platforms or recorded is None:
            yield f"the lock names no image for {image.platform}"
        elif recorded.image != image.config.digest:
            yield f"the lock names another image for {image.platform}: {recorded.image}"
        elif _other_manifest(contents, image, recorded):
            yield f"the lock names another manifest for {image.platform}"
    signed = {suite.inrelease for suite in lock.suites}
    for blob in contents.signatures:
        if blob.digest not in signed:
            yield f"the lock names no signed index {blob.digest}"
    if contents.documents and contents.for_ != "offline-lock":
        yield "documents for resolving are in a bundle that is not for that"


def _other_manifest(contents: Contents, image: BundledImage, recorded: LockedEnvironment) -> bool:
    """Whether the lock records another manifest of layers that were compressed just so."""
    if contents.compression == "none":
        return recorded.manifest != image.manifest.digest
    layers = recorded.layers.get(contents.compression)
    return (
        layers is not None and layers.encoder == contents.encoder and layers.manifest != image.manifest.digest
    )


def bound_sources(lock: Lock) -> dict[str, list[Source]]:
    """The sources that the lock binds by SHA-256 or SHA-512, by their package URL."""
    bound: dict[str, list[Source]] = {}
    for source in lock.sources:
        if source.sha256 is not None or source.sha512 is not None:
            bound.setdefault(source.purl, []).append(source)
    return bound


def _is(digest: Digest, source: Source) -> bool:
    """Whether that digest can be the source's: of one that only a SHA-512 binds, the file itself must show it."""
    return source.sha256 == digest or (source.sha256 is None and source.sha512 is not None)


def _unsorted(contents: Contents) -> Iterator[str]:
    for what, keys in (
        ("platforms", [str(platform) for platform in contents.platforms]),
        ("trees", [str(tree.digest) for tree in contents.trees]),
        ("sources", [str(source.digest) for source in contents.sources]),
        ("images", [str(image.platform) for image in contents.images]),
        ("signed indexes", [str(blob.digest) for blob in contents.signatures]),
        ("documents", [document.name for document in contents.documents]),
        *(("names of a tree", tree.names) for tree in contents.trees),
        *(("package URLs of a source", source.purls) for source in contents.sources),
    ):
        if any(one >= other for one, other in pairwise(keys)):
            yield f"the {what} are not in order, or one is there twice"
