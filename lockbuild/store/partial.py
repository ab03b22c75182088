"""A download under way: exclusive, resumable, hashed as it comes.

The bytes go to ``partial/<hex>``, a file that the writer holds locked and nobody reads. A killed
writer leaves it behind; the next one hashes what is there and goes on. Only a whole file with the
right digest ever gets a name among the blobs.

Some publishers bind a file by its SHA-512. A blob's name is its SHA-256 all the same: the memo of what
binds it says which one it came to be.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError, storage_error
from lockbuild.model.digest import Digest
from lockbuild.store.durable import storing, sync_directory, write_all
from lockbuild.store.layout import Layout
from lockbuild.store.locking import is_at, take
from lockbuild.store.memo import recall, remember

if TYPE_CHECKING:
    import hashlib

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Binding:
    """What the bytes of a download must be. ``key`` names it while it is under way; at least one digest is there.

    ``sha512`` is in hexadecimal digits.
    """

    key: Digest
    sha256: Digest | None
    sha512: str | None = None

    def blob(self, layout: Layout) -> Digest | None:
        """The blob, as far as it is known which one it is."""
        return self.sha256 or recall(layout, self.key)


class Partial:
    """What is there of a download.

    ``size`` is how many bytes are there. ``blob`` is the blob's digest, once it is in the store: after `commit`,
    or from the start, where another process finished it while this one waited (then there is nothing to write).
    """

    def __init__(
        self, layout: Layout, binding: Binding, descriptor: int | None, blob: Digest | None = None
    ) -> None:
        self.size = 0
        self.blob = blob
        self._binding = binding
        self._layout = layout
        self._path = layout.partials / binding.key.hex
        self._descriptor = descriptor
        self._hashes = self._new_hashes()
        if descriptor is not None:
            while data := os.read(descriptor, _CHUNK):
                self._update(data)

    @property
    def complete(self) -> bool:
        """Whether the blob is in the store."""
        return self.blob is not None

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``. FetchError where the disk is full; the bytes so far are dropped then."""
        descriptor = self._open()
        try:
            write_all(descriptor, data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.discard()
            raise storage_error(error, "cannot write a download", on=str(self._path)) from error
        self._update(data)

    def restart(self) -> None:
        """Drop the bytes that are there: what the server has is not their continuation."""
        descriptor = self._open()
        with storing("cannot restart a download", self._path):
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        self._hashes = self._new_hashes()
        self.size = 0

    def commit(self) -> Path:
        """Make it a blob, and say where that stands.

        IntegrityError, and the bytes are dropped, where they do not have every digest that they must have.
        """
        if self.blob is not None:
            return self._layout.blob(self.blob)
        descriptor = self._open()
        found = Digest(self._hashes[0].hexdigest())
        for expected, actual in (
            (self._binding.sha256, found),
            (self._binding.sha512, self._hashes[-1].hexdigest()),
        ):
            if expected is not None and actual != expected:
                size = self.size
                self.discard()
                kind = "" if isinstance(expected, Digest) else "sha512:"
                raise IntegrityError(
                    f"the {size:,} bytes received have the digest {kind}{actual}", on=f"{kind}{expected}"
                )
        target = self._layout.blob(found)
        with storing("cannot store a download", target):
            os.fchmod(descriptor, 0o444)
            os.fsync(descriptor)
            self._path.rename(target)
            sync_directory(target.parent)
            if self._binding.key != found:  # before whoever waits for the lock looks whether it is there
                remember(self._layout, self._binding.key, found)
        self.blob = found
        return target

    def discard(self) -> None:
        """Drop it for good; the next one begins anew."""
        self._path.unlink(missing_ok=True)
        self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None or self.complete:
            raise ValueError(f"the download of {self._binding.key} has ended")
        return self._descriptor

    def _new_hashes(self) -> list[hashlib._Hash]:
        """One for each digest to check; that of SHA-256 comes first, as it names the blob."""
        import hashlib

        return [hashlib.sha256(), *([hashlib.sha512()] if self._binding.sha512 is not None else [])]

    def _update(self, data: bytes | memoryview) -> None:
        for each in self._hashes:
            each.update(data)
        self.size += len(data)


@contextmanager
def partial(layout: Layout, binding: Binding, waiting: Callable[[], None] | None = None) -> Iterator[Partial]:
    """The download of what is bound so, held by this thread alone; waits for another that is at it."""
    path = layout.partials / binding.key.hex
    while True:
        with storing("cannot begin a download", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            take(descriptor, waiting=waiting)
            if not is_at(descriptor, path):
                continue  # whoever had it made it a blob, or dropped it
            blob = binding.blob(layout)
            if blob is not None and layout.blob(blob).exists():
                path.unlink()
                yield Partial(layout, binding, None, blob)
                return
            with storing("cannot resume a download", path):
                download = Partial(layout, binding, descriptor)
            try:
                yield download
            finally:
                if not download.size and not download.complete and is_at(descriptor, path):
                    path.unlink()
            return
        finally:
            os.close(descriptor)
