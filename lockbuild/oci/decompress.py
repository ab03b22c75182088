"""Reading a compressed layer that nobody vouches for: bounded in memory and in what it may become.

The compression is told from the first bytes (OCI media types can lie). A second thread decompresses while the first
one writes files: the libraries let go of the interpreter's lock meanwhile.
"""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, cast

from lockbuild.archive.treewriter import LIMIT
from lockbuild.errors import IntegrityError

_PIECE = 1 << 20
_AHEAD = 4
_WINDOW = 128 << 20
"""Memory that a zstd frame may ask for; 27 bits, as the zstd program allows by default."""
_GENEROUS = 1 << 30
_NOTHING = 64 << 20
"""Bytes that may be read without having become anything: more than the libraries hold back."""
_MOST_RATIO = 1000
"""Nothing of more than `_GENEROUS` bytes that is worth building with shrinks to less than a thousandth."""


@contextmanager
def decompress(
    chunks: Iterator[bytes],
    *,
    name: str,
    limit: int = LIMIT,
    seen: Callable[[bytes], object] | None = None,
) -> Iterator[Iterator[bytes]]:
    """The bytes that ``chunks`` (plain, gzip or zstd) stand for, in pieces; ``seen`` gets each before, in a thread of
    its own.

    IntegrityError, from the iterator, where they are damaged, cut short or followed by something else; where they
    become more than ``limit`` bytes; where they become more than a GiB that is a thousand times what was read; and
    where they become next to nothing (frames and members may be empty, and there may be any number of them).
    What ``chunks`` raises comes through.
    """
    counter = _Counter(chunks, name)
    first = b""
    for chunk in counter:
        first += chunk
        if len(first) >= 4:
            break
    with ExitStack() as stages:
        reader = _Ahead(_bounded(_pieces(counter, first, name), counter, name, limit))
        stages.callback(reader.close)
        if seen is not None:
            reader = _Ahead(_shown(reader.pieces(), seen))
            stages.callback(reader.close)
        yield reader.pieces()


def _pieces(rest: Iterator[bytes], first: bytes, name: str) -> Iterator[bytes]:
    if first.startswith(b"\x1f\x8b"):
        return _gunzip(rest, first, name)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd(rest, first, name)
    return _plain(rest, first)


def _plain(rest: Iterator[bytes], first: bytes) -> Iterator[bytes]:
    yield first
    yield from rest


def _gunzip(rest: Iterator[bytes], first: bytes, name: str) -> Iterator[bytes]:
    """Members that follow one another (RFC 1952, 2.2); nothing else may."""
    member = zlib.decompressobj(31)
    data = first
    try:
        while True:
            while data:
                if member.eof:
                    member = zlib.decompressobj(31)
                piece = member.decompress(data, _PIECE)
                data = member.unconsumed_tail or member.unused_data
                if piece:
                    yield piece
            following = next(rest, None)
            if following is None:
                break
            data = following
        while not member.eof and (piece := member.decompress(b"", _PIECE)):
            yield piece  # what the library still held back
    except zlib.error as error:
        raise _damaged(name, str(error)) from error
    if not member.eof:
        raise _damaged(name, "it is cut short")


def _unzstd(rest: Iterator[bytes], first: bytes, name: str) -> Iterator[bytes]:
    import zstandard

    source = cast(IO[bytes], _Reader(rest, first))
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    try:
        with decompressor.stream_reader(source, read_size=_PIECE, read_across_frames=True) as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except zstandard.ZstdError as error:
        raise _damaged(name, str(error)) from error


def _shown(pieces: Iterator[bytes], seen: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        seen(piece)
        yield piece


class _Reader:
    """The pieces as a file."""

    def __init__(self, rest: Iterator[bytes], first: bytes) -> None:
        self._rest = rest
        self._data = memoryview(first)

    def read(self, size: int = -1) -> bytes:
        while not self._data:
            following = next(self._rest, None)
            if following is None:
                return b""
            self._data = memoryview(following)
        piece = self._data if size < 0 else self._data[:size]
        self._data = self._data[len(piece) :]
        return bytes(piece)


class _Counter:
    """The pieces, counted."""

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks = iter(chunks)
        self._name = name
        self.count = 0
        self.became = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self.count += len(chunk)
        if self.count > 2 * self.became + _NOTHING:
            raise _damaged(self._name, f"{self.count:,} bytes of it stand for {self.became:,} only")
        return chunk


def _bounded(pieces: Iterator[bytes], counter: _Counter, name: str, limit: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        counter.became = total
        if total > limit:
            raise _damaged(name, f"it grows to more than the limit of {limit:,} bytes")
        if total > _GENEROUS and total > counter.count * _MOST_RATIO:
            raise _damaged(
                name, f"{counter.count:,} bytes of it grow to more than {_MOST_RATIO} times as many"
            )
        yield piece


class _Ahead:
    """Runs an iterator in a thread, a few pieces ahead of who takes them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(pieces,), name="decompress", daemon=True)
        self._thread.start()

    def pieces(self) -> Iterator[bytes]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """End the thread; whatever waits is dropped."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.02)
            except queue.Empty:
                continue
        self._thread.join()

    def _run(self, pieces: Iterator[bytes]) -> None:
        try:
            for piece in pieces:
                self._queue.put(piece)
                if self._closed.is_set():
                    return
            self._queue.put(None)
        except BaseException as error:  # it is raised again where the pieces are taken
            self._queue.put(error)


def _damaged(name: str, why: str) -> IntegrityError:
    return IntegrityError(
        f"the layer cannot be unpacked: {why}",
        on=name,
        hint="it was damaged on its way, or is not what it seems to be; get it again",
    )
