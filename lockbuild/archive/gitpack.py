"""Git objects on their own or in one pack with its index, the same bytes on every machine.

Formats: gitformat-pack(5). Contents are stored and not compressed (RFC 1951, section 3.2.4): what deflate makes of
them is another thing in every version of every library.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Type = Literal["commit", "tree", "blob", "tag"]
_TYPES: dict[Type, int] = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_STORED = 65535


@dataclass(frozen=True, slots=True)
class Pack:
    """The bytes of a pack and of its index; ``name`` is what git calls them in ``objects/pack``."""

    name: str
    pack: bytes
    index: bytes


def object_id(kind: Type, content: bytes) -> str:
    """The object's id: 40 hexadecimal digits."""
    return _sha1(f"{kind} {len(content)}\0".encode() + content).hex()


def loose(kind: Type, content: bytes) -> bytes:
    """The file of an object on its own."""
    return _stored(f"{kind} {len(content)}\0".encode() + content)


def read_loose(data: bytes) -> tuple[str, bytes]:
    """Kind and content of such a file; ValueError where it is none."""
    try:
        head, _, content = zlib.decompress(data).partition(b"\0")
    except zlib.error as error:
        raise ValueError(f"not a git object: {error}") from None
    return head.partition(b" ")[0].decode("ascii"), content


def pack(objects: Iterable[tuple[Type, bytes]]) -> Pack:
    """A pack of the objects, each once, by their ids in order."""
    unique = {bytes.fromhex(object_id(kind, content)): (kind, content) for kind, content in objects}
    body = bytearray(struct.pack(">4sII", b"PACK", 2, len(unique)))
    offsets: list[int] = []
    checksums: list[int] = []
    for oid in sorted(unique):
        kind, content = unique[oid]
        entry = _head(_TYPES[kind], len(content)) + _stored(content)
        offsets.append(len(body))
        checksums.append(zlib.crc32(entry))
        body += entry
    if len(body) >= 1 << 31:
        raise ValueError("a pack of 2 GiB or more")
    trailer = _sha1(body)
    data = bytes(body) + trailer
    return Pack(f"pack-{trailer.hex()}", data, _index(sorted(unique), checksums, offsets, trailer))


def _index(ids: list[bytes], checksums: list[int], offsets: list[int], trailer: bytes) -> bytes:
    counts = [0] * 256
    for oid in ids:
        counts[oid[0]] += 1
    total = 0
    fanout = []
    for count in counts:
        total += count
        fanout.append(total)
    data = b"".join(
        (
            struct.pack(">4sI", b"\xfftOc", 2),
            struct.pack(">256I", *fanout),
            *ids,
            struct.pack(f">{len(ids)}I", *checksums),
            struct.pack(f">{len(ids)}I", *offsets),
            trailer,
        )
    )
    return data + _sha1(data)


def _head(kind: int, size: int) -> bytes:
    first = kind << 4 | size & 15
    size >>= 4
    head = bytearray()
    while size:
        head.append(first | 128)
        first = size & 127
        size >>= 7
    head.append(first)
    return bytes(head)


def _stored(content: bytes) -> bytes:
    """A zlib stream (RFC 1950) of stored blocks."""
    parts = [b"\x78\x01"]
    for at in range(0, max(len(content), 1), _STORED):
        block = content[at : at + _STORED]
        last = at + _STORED >= len(content)
        parts += [struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF), block]
    parts.append(struct.pack(">I", zlib.adler32(content)))
    return b"".join(parts)


def _sha1(data: bytes | bytearray) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
