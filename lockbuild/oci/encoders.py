"""The compressions that a layer may have, each with one pinned encoder.

The same tree must become the same compressed bytes on every machine: the manifest's digest depends on them, and a
registry stores and sends a blob once only if it is one. Compressors promise that for one version of one library at
most, so the library is the one that its wheel brings along, and its version is part of the encoder's name. Neither
number nor speed of the processors decides anything:

- *zstd*: libzstd (RFC 8878) makes jobs of a fixed size, whose bytes do not depend on which thread does them;
- *gzip*: libdeflate (RFC 1952), a member for each fixed piece. A reader takes members that follow one another as one
  stream. No build of zlib takes part.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, Protocol

from lockbuild.errors import UsageError

Compression = Literal["none", "gzip", "zstd"]
COMPRESSIONS: tuple[Compression, ...] = ("none", "gzip", "zstd")

_LAYER = "application/vnd.oci.image.layer.v1.tar"
MEDIA_TYPES: dict[Compression, str] = {"none": _LAYER, "gzip": f"{_LAYER}+gzip", "zstd": f"{_LAYER}+zstd"}
"""The media types of layers (OCI image specification 1.1, layer.md)."""

_ZSTD_LEVEL = 3
_ZSTD_JOB = 8 << 20
_GZIP_LEVEL = 6
_GZIP_MEMBER = 4 << 20
_MAX_THREADS = 8


def encoder(compression: Compression) -> str:
    """The name of what makes layers of that compression here: two with one name make the same bytes."""
    if compression == "zstd":
        import zstandard

        version = ".".join(map(str, zstandard.ZSTD_VERSION))
        return f"libzstd {version} level {_ZSTD_LEVEL} jobs {_ZSTD_JOB >> 20} MiB"
    if compression == "gzip":
        from importlib.metadata import version as version_of

        return f"deflate {version_of('deflate')} level {_GZIP_LEVEL} members {_GZIP_MEMBER >> 20} MiB"
    return "none"


def compression_of(text: str) -> Compression:
    """The compression of that name; UsageError where there is none."""
    for known in COMPRESSIONS:
        if text == known:
            return known
    raise UsageError(f"there is no compression {text!r} (there is: {', '.join(COMPRESSIONS)})")


class Encoding(Protocol):
    """One layer being compressed. Close it, whatever happens."""

    def feed(self, data: memoryview) -> Iterator[bytes | bytearray]:
        """Take ``data``, which may change afterwards; give what is ready."""

    def finish(self) -> Iterator[bytes | bytearray]:
        """Give the rest."""

    def close(self) -> None:
        """End its threads."""


def begin(compression: Compression, size: int, *, threads: int | None = None) -> Encoding:
    """Begin to compress ``size`` bytes; ``threads`` (as many as there are processors) changes no byte of it."""
    count = threads or min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    if compression == "zstd":
        return _Zstd(size, count)
    return _Gzip(count) if compression == "gzip" else _Plain()


class _Plain:
    def feed(self, data: memoryview) -> Iterator[bytes]:
        yield bytes(data)

    def finish(self) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        pass


class _Zstd:
    def __init__(self, size: int, threads: int) -> None:
        import zstandard

        parameters = zstandard.ZstdCompressionParameters.from_level(
            _ZSTD_LEVEL,
            threads=threads,
            job_size=_ZSTD_JOB,
            write_content_size=True,
            write_checksum=True,
        )
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=size)

    def feed(self, data: memoryview) -> Iterator[bytes]:
        if ready := self._compressor.compress(data):
            yield ready

    def finish(self) -> Iterator[bytes]:
        yield self._compressor.flush()

    def close(self) -> None:
        pass


class _Gzip:
    def __init__(self, threads: int) -> None:
        import deflate

        self._compress: Callable[[bytes, int], bytearray] = deflate.gzip_compress
        self._buffer = bytearray()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="gzip")
        self._most = threads + 1
        self._running: deque[Future[bytearray]] = deque()

    def feed(self, data: memoryview) -> Iterator[bytearray]:
        self._buffer += data
        while len(self._buffer) >= _GZIP_MEMBER:
            self._submit(bytes(memoryview(self._buffer)[:_GZIP_MEMBER]))
            del self._buffer[:_GZIP_MEMBER]
            if len(self._running) > self._most:
                yield self._running.popleft().result()

    def finish(self) -> Iterator[bytearray]:
        if self._buffer:
            self._submit(bytes(self._buffer))
        while self._running:
            yield self._running.popleft().result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, piece: bytes) -> None:
        self._running.append(self._pool.submit(self._compress, piece, _GZIP_LEVEL))
