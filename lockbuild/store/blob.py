"""Writing a blob whose digest nobody knows before it is written: an encoded layer, an archive that is made here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.archive.hashing import HashBehind
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.store.durable import WriteBehind, filling, storing, sync_directory, write_all
from lockbuild.store.layout import Layout
from lockbuild.store.staging import staging


class NewBlob:
    """A blob in the making: `write` its bytes, then `commit`. ``size`` counts the bytes written so far."""

    def __init__(self, layout: Layout, path: Path, descriptor: int, hasher: HashBehind) -> None:
        self.size = 0
        self._layout = layout
        self._path = path
        self._descriptor = descriptor
        self._hasher = hasher
        self._behind = WriteBehind(descriptor)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append ``data``."""
        view = memoryview(data).cast("B")
        self._hasher.update(data)
        write_all(self._descriptor, view)
        if not isinstance(data, bytes):
            self._hasher.settle()
        self.size += len(view)
        self._behind.wrote(len(view))

    def commit(self, expected: Digest | None = None) -> Digest:
        """Name the blob by its digest, and give that back; it is durable then.

        IntegrityError, and nothing is kept, where the digest is not the ``expected`` one.
        """
        digest = self._hasher.digest()
        if expected is not None and digest != expected:
            raise IntegrityError(f"the {self.size:,} bytes have the digest {digest}", on=str(expected))
        target = self._layout.blob(digest)
        with storing("cannot store a blob", target):
            if not target.exists():
                os.fchmod(self._descriptor, 0o444)
                os.fsync(self._descriptor)
                self._path.rename(target)
                sync_directory(target.parent)
        return digest


@contextmanager
def new_blob(layout: Layout) -> Iterator[NewBlob]:
    """A blob to write. What is not committed is removed at the end."""
    with staging(layout) as directory, filling("cannot write a blob", layout.root):
        path = directory / "blob"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with HashBehind() as hasher:
                yield NewBlob(layout, path, descriptor, hasher)
        finally:
            os.close(descriptor)
