"""Resolutions that are a pure function of what was read already: found once, and looked up in the store ever after.

The key holds everything that decides the result, so it is a matter of speed only; whoever has another store, or none
of it left, finds the same anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import lockbuild
from lockbuild.errors import LockbuildError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.resolve.context import Resolution
from lockbuild.store import Store

_PROTOCOL = 1
"""Raised when the same recipe would be resolved otherwise."""


def recipe_digest(kind: str, recipe: Mapping[str, Any]) -> Digest:
    """The key of what is resolved by the provider ``kind`` from ``recipe`` (values of JSON)."""
    whole = {"kind": kind, "protocol": _PROTOCOL, "version": lockbuild.__version__, "recipe": recipe}
    return Digest.of(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode())


def recall_resolution(store: Store, key: Digest) -> Resolution | None:
    """What was found for ``key``, without suites; None where that is not known (any more)."""
    digest = store.recall(key)
    if digest is None or not store.has_blob(digest):
        return None
    try:
        value = json.loads(store.verified_blob(digest).read_bytes())
        trees = tuple(LockedTree.model_validate(tree) for tree in value["trees"])
        sources = tuple(Source.model_validate(source) for source in value["sources"])
    except (LockbuildError, OSError, ValueError, KeyError, TypeError):
        return None
    return Resolution(trees, sources)


def remember_resolution(store: Store, key: Digest, resolution: Resolution) -> None:
    """Keep trees and sources of ``resolution`` for the next time."""
    value = {
        "trees": [tree.model_dump(mode="json", exclude_defaults=True) for tree in resolution.trees],
        "sources": [source.model_dump(mode="json", exclude_defaults=True) for source in resolution.sources],
    }
    store.remember(key, store.add_blob(json.dumps(value, separators=(",", ":")).encode()))
