"""A download under way: exclusive, resumable, hashed as it comes.

The bytes go to ``partial/<hex>``, a file that the writer holds locked and nobody reads. A killed
writer leaves it behind; the next one hashes what is there and goes on. Only a whole file with the
right digest ever gets a name among the blobs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lockbuild.errors import IntegrityError, storage_error
from lockbuild.model.digest import Digest
from lockbuild.store.durable import storing, sync_directory, write_all
from lockbuild.store.layout import Layout
from lockbuild.store.locking import is_at, take

_CHUNK = 1 << 20


class Partial:
    """What is there of the blob ``digest``.

    ``size`` is how many bytes are there. ``complete`` says that the blob is in the store (another
    process may have finished it while this one waited); then there is nothing to write.
    """

    def __init__(self, layout: Layout, digest: Digest, descriptor: int | None) -> None:
        import hashlib

        self.digest = digest
        self.size = 0
        self.complete = descriptor is None
        self._layout = layout
        self._path = layout.partials / digest.hex
        self._descriptor = descriptor
        self._hash = hashlib.sha256()
        if descriptor is not None:
            while data := os.read(descriptor, _CHUNK):
                self._hash.update(data)
                self.size += len(data)

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``. FetchError where the disk is full; the bytes so far are dropped then."""
        descriptor = self._open()
        try:
            write_all(descriptor, data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.discard()
            raise storage_error(error, "cannot write a download", on=str(self._path)) from error
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Drop the bytes that are there: what the server has is not their continuation."""
        import hashlib

        descriptor = self._open()
        with storing("cannot restart a download", self._path):
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        self._hash = hashlib.sha256()
        self.size = 0

    def commit(self) -> Path:
        """Make it a blob, and say where that stands.

        IntegrityError, and the bytes are dropped, where they do not have the digest.
        """
        target = self._layout.blob(self.digest)
        if self.complete:
            return target
        descriptor = self._open()
        found = Digest(self._hash.hexdigest())
        if found != self.digest:
            size = self.size
            self.discard()
            raise IntegrityError(f"the {size:,} bytes received have the digest {found}", on=str(self.digest))
        with storing("cannot store a download", target):
            os.fchmod(descriptor, 0o444)
            os.fsync(descriptor)
            self._path.rename(target)
            sync_directory(target.parent)
        self.complete = True
        return target

    def discard(self) -> None:
        """Drop it for good; the next one begins anew."""
        self._path.unlink(missing_ok=True)
        self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None or self.complete:
            raise ValueError(f"the download of {self.digest} has ended")
        return self._descriptor


@contextmanager
def partial(layout: Layout, digest: Digest, waiting: Callable[[], None] | None = None) -> Iterator[Partial]:
    """The download of ``digest``, held by this thread alone; waits for another that is at it."""
    path = layout.partials / digest.hex
    while True:
        with storing("cannot begin a download", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            take(descriptor, waiting=waiting)
            if not is_at(descriptor, path):
                continue  # whoever had it made it a blob, or dropped it
            if layout.blob(digest).exists():
                path.unlink()
                yield Partial(layout, digest, None)
                return
            with storing("cannot resume a download", path):
                download = Partial(layout, digest, descriptor)
            try:
                yield download
            finally:
                if not download.size and not download.complete and is_at(descriptor, path):
                    path.unlink()
            return
        finally:
            os.close(descriptor)
