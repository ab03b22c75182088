"""A bundle as several files, for media and uploads that take no file of any size.

Each part is a canonical tar of two files: ``part.json`` says which part of which bundle it is, ``data`` is a slice of
the bundle's bytes. So a part is known by what is in it, whatever it is called and in whatever order parts are given;
and where there is no lockbuild, ``tar -xOf PART data`` of each in order is the bundle. Format: ``docs/bundles.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, BinaryIO, Literal

from pydantic import Field

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError, UsageError
from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest
from lockbuild.oci.bundle.source import ByteSource, StreamSource
from lockbuild.oci.image import canonical_json

MOST_PARTS = 1000
LEAST_SIZE = 64 << 10
"""Bytes that a part has at least."""
_HEAD_NAME = b"part.json"
_DATA_NAME = b"data"
_LIMIT = 4096
_CHUNK = 1 << 20
_NOTHING = Digest("0" * 64)


class PartHead(FileModel):
    """Which part of which bundle it is. ``offset`` and ``length`` in bytes of the bundle."""

    schema_: Literal[1] = 1
    bundle: Digest
    """The digest of the whole bundle."""
    size: Annotated[int, Field(gt=0, le=1 << 50)]
    """And its bytes."""
    parts: Annotated[int, Field(gt=0, le=MOST_PARTS)]
    number: Annotated[int, Field(ge=0, lt=MOST_PARTS)]
    """Counted from 0."""
    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(gt=0)]
    digest: Digest
    """Of the part's slice."""

    def data(self) -> bytes:
        """The file, whose size depends on no digest."""
        return canonical_json(self.model_dump(mode="json", by_alias=True))

    def start(self) -> bytes:
        """What stands in the part before the slice."""
        data = self.data()
        return b"".join(
            (
                ustar.file_header(_HEAD_NAME, len(data), executable=False),
                data,
                bytes(ustar.padding(len(data))),
                ustar.file_header(_DATA_NAME, self.length, executable=False),
            )
        )

    def end(self) -> bytes:
        """And after it."""
        return bytes(ustar.padding(self.length)) + ustar.END


def planned(size: int, most: int) -> list[PartHead]:
    """The parts of a bundle of ``size`` bytes, none larger than ``most``; their digests are to be filled in."""
    if most < LEAST_SIZE:
        raise UsageError(f"--split: a part must have at least {LEAST_SIZE:,} bytes")
    room = (
        (most - 8 * ustar.BLOCK) // ustar.BLOCK * ustar.BLOCK
    )  # heads, long sizes and the end are less than that
    count = -(-size // room)
    if count > MOST_PARTS:
        raise UsageError(
            f"--split: the bundle has {size:,} bytes, which makes {count:,} parts; at most {MOST_PARTS:,} can be",
            hint="name a larger size",
        )
    return [
        PartHead(
            bundle=_NOTHING,
            size=size,
            parts=count,
            number=number,
            offset=number * room,
            length=min(room, size - number * room),
            digest=_NOTHING,
        )
        for number in range(count)
    ]


def is_part(block: bytes) -> bool:
    """Whether a file that begins so is a part of a bundle."""
    return block[: len(_HEAD_NAME) + 1] == _HEAD_NAME + b"\0" and block[257:262] == b"ustar"


class PartsSource:
    """The bundle that parts are of: ``streams`` are files of one part each, or one with all of them in order."""

    def __init__(self, streams: Sequence[ByteSource]) -> None:
        self.name = streams[0].name
        self._streams = list(streams)
        self._head: PartHead | None = None
        self._next = 0
        self._left = 0
        self._hasher: hashlib._Hash | None = hashlib.sha256()

    def read(self, size: int) -> bytes:
        if not self._left and not self._begin():
            return b""
        data = self._take(min(size, self._left))
        if self._hasher is not None:
            self._hasher.update(data)
        self._left -= len(data)
        if not self._left:
            self._finish()
        return data

    def skip(self, size: int) -> None:
        while size and (self._left or self._begin()):
            length = min(size, self._left)
            self._streams[0].skip(length)
            self._hasher = (
                None  # nobody can say any more whether the slice is sound; blobs have digests of their own
            )
            self._left -= length
            size -= length
            if not self._left:
                self._finish()

    def _begin(self) -> bool:
        """Go to the next part; False after the last one."""
        before = self._head
        if before is not None and self._next == before.parts:
            return False
        self.name = self._streams[0].name
        head = read_head(self._streams[0])
        if before is not None and (head.bundle, head.parts) != (before.bundle, before.parts):
            raise _refused("it is a part of another bundle", self.name)
        if head.number != self._next:
            raise missing(head, [self._next], self.name)
        self._head = head
        self._left = head.length
        self._hasher = hashlib.sha256()
        return True

    def _finish(self) -> None:
        head = self._head
        assert head is not None
        if self._hasher is not None and self._hasher.hexdigest() != head.digest.hex:
            raise _refused(f"part {head.number} of {head.parts} is damaged", self.name)
        if self._take(len(head.end()), exactly=True) != head.end():
            raise _refused(f"part {head.number} of {head.parts} does not end as it should", self.name)
        self._next += 1
        if self._next < head.parts and len(self._streams) > 1:
            self._streams.pop(0)
        elif self._next == head.parts and self._streams[0].read(1):
            raise _refused("something follows its last part", self.name)

    def _take(self, size: int, *, exactly: bool = False) -> bytes:
        data = self._streams[0].read(size)
        while exactly and data and len(data) < size:
            more = self._streams[0].read(size - len(data))
            if not more:
                break
            data += more
        if not data or (exactly and len(data) < size):
            assert self._head is not None
            raise _refused(f"part {self._head.number} of {self._head.parts} is cut short", self.name)
        return data


def read_head(source: ByteSource) -> PartHead:
    """The head of the part that ``source`` stands at; afterwards it stands at the slice."""
    from pydantic import ValidationError

    block = _exactly(source, ustar.BLOCK)
    field = block[124:135]
    if not is_part(block) or not field.isdigit() or not 0 < int(field, 8) <= _LIMIT:
        raise _refused("it is no part of a bundle", source.name)
    size = int(field, 8)
    body = _exactly(source, size + ustar.padding(size))
    try:
        head = PartHead.model_validate(json.loads(body[:size]))
    except (ValueError, RecursionError, ValidationError):
        raise _refused("it does not say which part of a bundle it is", source.name) from None
    if block + body + _exactly(source, len(head.start()) - len(block) - len(body)) != head.start():
        raise _refused("it does not begin as a part of a bundle", source.name)
    return head


def ordered(
    sources: Sequence[StreamSource], streams: Sequence[BinaryIO], *, head_only: bool = False
) -> PartsSource:
    """The bundle of the parts that ``streams`` are, in whatever order; each stands at its beginning afterwards.

    With ``head_only`` the first one is enough. IntegrityError, naming them, where parts are missing, there twice, or
    of several bundles.
    """
    heads = []
    for source, stream in zip(sources, streams, strict=True):
        heads.append((read_head(source), source))
        stream.seek(0)
    first = heads[0][0]
    by_number: dict[int, StreamSource] = {}
    for head, source in heads:
        if (head.bundle, head.parts) != (first.bundle, first.parts):
            raise _refused(f"it is a part of another bundle than {heads[0][1].name}", source.name)
        if head.number in by_number:
            raise _refused(f"it is part {head.number}, as {by_number[head.number].name} is", source.name)
        by_number[head.number] = source
    lacking = [number for number in range(1 if head_only else first.parts) if number not in by_number]
    if lacking:
        raise missing(first, lacking, heads[0][1].name)
    return PartsSource([source for _, source in sorted(by_number.items())])


def missing(head: PartHead, lacking: Sequence[int], on: str) -> IntegrityError:
    """The error that names the parts that are not there."""
    stem, dot, suffix = on.rpartition(".")
    usual = dot and suffix.isdigit() and len(suffix) == 3
    names = ", ".join(f"{stem}.{number:03}" if usual else str(number) for number in lacking)
    one = len(lacking) == 1
    return IntegrityError(
        f"{'a part is' if one else 'parts are'} missing of the bundle, which has {head.parts}: {names}",
        on=on,
        hint="name all parts of the bundle, in any order",
    )


def _exactly(source: ByteSource, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.read(size - len(data))
        if not more:
            raise _refused("it is cut short", source.name)
        data += more
    return data


def _refused(why: str, on: str) -> IntegrityError:
    return IntegrityError(
        f"the bundle is refused: {why}", on=on, hint="get that part again from whoever made the bundle"
    )
