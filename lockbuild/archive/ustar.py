"""The header bytes of the canonical tar, one function for each kind of entry.

They are written here and not by `tarfile` because every byte counts: the SHA-256 of the stream is
a tree's name (and the diff ID of the layer that it becomes), so no other library's version may
decide them. Format: POSIX.1-2017 `pax`, "ustar Interchange Format" and "pax Header Block"; where
POSIX leaves a choice the bytes are those that GNU tar writes.
"""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)
"""What ends an archive: two zero blocks."""
MAX_FIELD = 100
"""Bytes that the name and link fields hold; a name of just that length has no NUL after it."""
MAX_SIZE = 8**11 - 1
"""The greatest size that eleven octal digits hold: 8 GiB - 1."""

_REGULAR, _SYMLINK, _DIRECTORY, _PAX = b"0", b"2", b"5", b"x"
_OWNERS = b"0000000\0" * 2
_MTIME = b"00000000000\0"
_AFTER_LINK = b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(155 + 12)
_PAX_NAME = b"././@PaxHeader"


def file_header(name: bytes, size: int, *, executable: bool) -> bytes:
    """The header block or blocks of a regular file of ``size`` bytes; its data and `padding` follow."""
    records = _name_record(b"path", name)
    if size > MAX_SIZE:
        records += pax_record(b"size", b"%d" % size)
        size = 0
    mode = b"0000755\0" if executable else b"0000644\0"
    return _pax_header(records) + _block(name, mode, size, _REGULAR, b"")


def directory_header(name: bytes) -> bytes:
    """The header of a directory; ``name`` is without the trailing slash that the entry gets."""
    name += b"/"
    return _pax_header(_name_record(b"path", name)) + _block(name, b"0000755\0", 0, _DIRECTORY, b"")


def symlink_header(name: bytes, target: bytes) -> bytes:
    """The header of a symbolic link."""
    records = _name_record(b"linkpath", target) + _name_record(b"path", name)
    return _pax_header(records) + _block(name, b"0000777\0", 0, _SYMLINK, target)


def padding(size: int) -> int:
    """How many zero bytes follow ``size`` bytes of data."""
    return -size % BLOCK


def pax_record(key: bytes, value: bytes) -> bytes:
    """``"<length> <key>=<value>\\n"``, where the length counts its own digits."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _name_record(key: bytes, value: bytes) -> bytes:
    return pax_record(key, value) if len(value) > MAX_FIELD else b""


def _pax_header(records: bytes) -> bytes:
    if not records:
        return b""
    head = _block(_PAX_NAME, b"0000644\0", len(records), _PAX, b"")
    return head + records + bytes(padding(len(records)))


# The checksum is the sum of all bytes of the block, its own field counted as spaces. Adding up only
# the fields that vary makes a header four times cheaper, which shows over tens of thousands of files.
_CONSTANT_SUM = sum(_OWNERS) + sum(_MTIME) + sum(b" " * 8) + sum(_AFTER_LINK)


def _block(name: bytes, mode: bytes, size: int, kind: bytes, link: bytes) -> bytes:
    name, link = name[:MAX_FIELD], link[:MAX_FIELD]
    size_field = b"%011o\0" % size
    checksum = _CONSTANT_SUM + sum(name) + sum(mode) + sum(size_field) + kind[0] + sum(link)
    return b"".join(
        (
            name.ljust(MAX_FIELD, b"\0"),
            mode,
            _OWNERS,
            size_field,
            _MTIME,
            b"%06o\0 " % checksum,
            kind,
            link.ljust(MAX_FIELD, b"\0"),
            _AFTER_LINK,
        )
    )
