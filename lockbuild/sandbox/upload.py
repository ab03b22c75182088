"""Directories of the host as one tar stream for an engine, owned by the build user.

The entries are those of the canonical tar (`lockbuild.archive`): times at the epoch, modes 0755 and 0644.
Only the owner differs, so that a container shows inputs as bubblewrap does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lockbuild.archive import canonical, ustar
from lockbuild.errors import IntegrityError
from lockbuild.model.environment import GID, UID

_CHUNK = 1 << 20
_OWNER = b"%07o\0%07o\0" % (UID, GID)


@dataclass(frozen=True, slots=True)
class Upload:
    """The absolute container path ``target``, filled from ``source`` (None: an empty directory)."""

    target: str
    source: Path | None = None
    mode: int = 0o755


def upload_stream(uploads: Iterable[Upload]) -> Iterator[bytes]:
    """The tar stream to extract at /, in chunks of about a megabyte. IntegrityError as `canonical.scan`."""
    pending = bytearray()
    made: set[PurePosixPath] = set()
    for upload in sorted(uploads, key=lambda item: PurePosixPath(item.target).parts):
        target = PurePosixPath(upload.target)
        for parent in reversed(target.parents[:-1]):
            if parent not in made:
                made.add(parent)
                pending += ustar.directory_header(os.fsencode(parent)[1:])
        made.add(target)
        prefix = os.fsencode(target)[1:]
        pending += _owned(ustar.directory_header(prefix), upload.mode)
        if upload.source is not None:
            for part in _contents(upload.source, prefix + b"/"):
                pending += part
                if len(pending) >= _CHUNK:
                    yield bytes(pending)
                    pending.clear()
    yield bytes(pending) + ustar.END


def contents_stream(source: Path) -> Iterator[bytes]:
    """The tar stream of what is below ``source``, to extract into an existing directory."""
    yield from _contents(source, b"")
    yield ustar.END


def _contents(source: Path, prefix: bytes) -> Iterator[bytes]:
    base = os.fsencode(source) + b"/"
    for name, status in canonical.scan(source):
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            yield _owned(ustar.directory_header(prefix + name))
        elif stat.S_ISLNK(mode):
            target = os.readlink(base + name)  # noqa: PTH115  names are bytes here
            yield _owned(ustar.symlink_header(prefix + name, target))
        else:
            yield from _file(base + name, prefix + name, status)


def _file(path: bytes, name: bytes, status: os.stat_result) -> Iterator[bytes]:
    size = status.st_size
    yield _owned(ustar.file_header(name, size, executable=bool(status.st_mode & 0o111)))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        left = size
        while left:
            data = os.read(descriptor, min(left, _CHUNK))
            if not data:
                raise IntegrityError("the file became shorter while it was read", on=os.fsdecode(path))
            left -= len(data)
            yield data
    finally:
        os.close(descriptor)
    yield bytes(ustar.padding(size))


def _owned(header: bytes, mode: int | None = None) -> bytes:
    """``header`` with the build user as owner. Its last block is the entry's own; before it may be a pax one."""
    block = bytearray(header[-ustar.BLOCK :])
    if mode is not None:
        block[100:108] = b"%07o\0" % mode
    block[108:124] = _OWNER
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return header[: -ustar.BLOCK] + bytes(block)
