"""Where the bytes of a bundle come from: a file or a pipe."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Protocol

from lockbuild.errors import UsageError, storage_error
from lockbuild.reading import open_regular

_CHUNK = 1 << 20
_BLOCK = 512


class ByteSource(Protocol):
    """Where a bundle's bytes come from; ``name`` is what messages call it."""

    name: str

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, none only at the end."""

    def skip(self, size: int) -> None:
        """Pass over so many bytes, as far as they are there."""


class StreamSource:
    """A file or a pipe, without a buffer. The caller closes ``stream``."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name = name
        self._stream = stream
        status = os.fstat(stream.fileno())
        self._end = status.st_size if stat.S_ISREG(status.st_mode) else None

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size) or b""
        except OSError as error:
            raise storage_error(error, "the bundle cannot be read", on=self.name) from error

    def skip(self, size: int) -> None:
        if self._end is not None:
            self._stream.seek(min(size, max(0, self._end - self._stream.tell())), os.SEEK_CUR)
            return
        while size and (data := self.read(min(size, _CHUNK))):
            size -= len(data)


class PeekedSource:
    """The same, with its first 512 bytes at hand as ``start``."""

    def __init__(self, source: ByteSource) -> None:
        self.name = source.name
        self._source = source
        self.start = b""
        while len(self.start) < _BLOCK and (data := source.read(_BLOCK - len(self.start))):
            self.start += data
        self._rest = self.start

    def read(self, size: int) -> bytes:
        if not self._rest:
            return self._source.read(size)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def skip(self, size: int) -> None:
        length = min(size, len(self._rest))
        self._rest = self._rest[length:]
        self._source.skip(size - length)


def open_bundle(file: Path) -> BinaryIO:
    """A bundle's file, without a buffer; UsageError where it cannot be opened."""
    try:
        return open_regular(file, buffering=0)
    except OSError as error:
        hint = (
            "give a bundle out of a pipe on standard input, as `-`" if error.errno == errno.EINVAL else None
        )
        raise UsageError(f"the bundle cannot be opened: {error.strerror}", on=str(file), hint=hint) from None
