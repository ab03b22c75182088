"""Content-addressed blobs and trees. Nothing but this package writes into the store."""

from lockbuild.store.content import Store

__all__ = ["Store"]
