"""Decompress an index without trusting how large it says it becomes.

xz (.xz file format 1.1) and gzip (RFC 1952), several streams or members in a row included.
"""

from __future__ import annotations

from typing import Protocol

from lockbuild.errors import IntegrityError

SUFFIXES = (".xz", ".gz", "")
"""What indexes are compressed with, the preferred one first."""
_MEMORY_LIMIT = 256 << 20
"""Bytes that an xz stream may ask for: its largest preset needs 65 MiB."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decompress(data: bytes, suffix: str, *, limit: int, on: str) -> bytes:
    """The content of ``data``, at most ``limit`` bytes. IntegrityError where it is more, or damaged."""
    import lzma
    import zlib

    if suffix == "":
        if len(data) > limit:
            raise _too_large(limit, on)
        return data
    parts: list[bytes] = []
    room = limit
    try:
        while data:
            part, data, ended = _stream(_decompressor(suffix), data, room + 1)
            room -= len(part)
            if room < 0:
                raise _too_large(limit, on)
            if not ended:
                raise IntegrityError("it is truncated", on=on)
            parts.append(part)
            # Streams may be padded with zero bytes; nothing else may follow.
            data = data.lstrip(b"\0")
    except (lzma.LZMAError, zlib.error) as error:
        raise IntegrityError(f"it cannot be unpacked ({error})", on=on) from None
    return b"".join(parts)


def _decompressor(suffix: str) -> _Decompressor:
    import lzma
    import zlib

    if suffix == ".xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    return zlib.decompressobj(wbits=31)  # 31: a gzip header, nothing else


def _stream(decompressor: _Decompressor, data: bytes, most: int) -> tuple[bytes, bytes, bool]:
    """One stream of at most ``most`` bytes: its content, what follows it, and whether it ended."""
    content = decompressor.decompress(data, most)
    return content, decompressor.unused_data, decompressor.eof


def _too_large(limit: int, on: str) -> IntegrityError:
    return IntegrityError(f"it unpacks to more than the {limit} bytes that it may have", on=on)
