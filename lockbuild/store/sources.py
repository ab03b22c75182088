"""Which blob a locked source is: the one of its SHA-256, or where the lock has none yet, of what was fetched for it."""

from __future__ import annotations

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.store.content import Store


def known_blob(store: Store, source: Source) -> Digest | None:
    """The digest of the source's blob, whether the store has it or not; None where it was never fetched."""
    return source.sha256 or store.recall(source.identity)


def has_source(store: Store, source: Source) -> bool:
    """Whether the store has the source's blob."""
    digest = known_blob(store, source)
    return digest is not None and store.has_blob(digest)


def source_blob(store: Store, source: Source) -> Digest:
    """The digest of the source's blob; IntegrityError where it was never fetched."""
    digest = known_blob(store, source)
    if digest is None:
        raise IntegrityError(
            "the store does not have it", on=source.purl, hint="run `lockbuild sync` to fetch it"
        )
    return digest
