"""What resolvers read, kept in the store for a time without a network: taken down at one site, looked up at another.

The documents are blobs. Which name is which, a catalogue says, a blob itself, which the store finds by a memo. A
bundle for ``offline-lock`` brings documents along; those of one that is loaded later go before earlier ones.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest

if TYPE_CHECKING:
    from lockbuild.store import Store

_KEY = Digest.of(b"the catalogue of documents")
_LOCK = "documents"


class StoredDocuments:
    """Those that the store has. What is read beside is not kept."""

    recording = False

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def catalogue(self) -> Mapping[str, Digest]:
        """The digest of each document, by name."""
        return _catalogue(self._store)

    def find(self, name: str) -> bytes | None:
        """The document of that name; IntegrityError where it is damaged."""
        digest = self.catalogue.get(name)
        if digest is None or not self._store.has_blob(digest):
            return None
        return self._store.verified_blob(digest).read_bytes()

    def note(self, name: str, data: bytes) -> None:
        """Nothing."""


class RecordedDocuments:
    """Takes down everything that is read, as blobs of the store; finds nothing, so that all of it is read."""

    recording = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._noted: dict[str, tuple[Digest, int]] = {}

    def find(self, name: str) -> bytes | None:
        """Nothing."""
        return None

    def note(self, name: str, data: bytes) -> None:
        """Keep it; the last of a name counts."""
        digest = self._store.add_blob(data)
        with self._lock:
            self._noted[name] = digest, len(data)

    @property
    def noted(self) -> dict[str, tuple[Digest, int]]:
        """Digest and size in bytes of each, by name, in the order of names."""
        with self._lock:
            return dict(sorted(self._noted.items()))


def add_documents(store: Store, documents: Mapping[str, Digest]) -> None:
    """Have the store find these, which are there as blobs."""
    with store.lock(_LOCK):
        known = {**_catalogue(store), **documents}
        text = json.dumps({name: str(digest) for name, digest in sorted(known.items())}, ensure_ascii=False)
        store.remember(_KEY, store.add_blob(text.encode()))


def kept_blobs(store: Store) -> set[Digest]:
    """The blobs that a garbage collection must leave for them."""
    catalogue = store.recall(_KEY)
    return set() if catalogue is None else {catalogue, *_catalogue(store).values()}


def _catalogue(store: Store) -> dict[str, Digest]:
    digest = store.recall(_KEY)
    if digest is None or not store.has_blob(digest):
        return {}
    try:
        value = json.loads(store.verified_blob(digest).read_bytes())
        return {str(name): Digest.parse(text) for name, text in value.items()}
    except (IntegrityError, ValueError, AttributeError, TypeError):
        return {}  # damaged, and gone: as if none had been loaded
