"""The ``RECORD`` of a wheel: what every file in it must be.

Specifications: "Recording installed projects" and "Binary distribution format" (packaging.python.org).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from lockbuild.errors import IntegrityError

_ALGORITHMS = ("sha256", "sha384", "sha512")
"""The specification refuses MD5, SHA-1 and whatever is not in hashlib; nobody writes others than these."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A file's row: ``digest`` is URL-safe base64 without padding; both are absent only for RECORD itself."""

    algorithm: str
    digest: str
    size: int | None


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(slots=True)
class Hashing:
    """A stream that hashes what is read from ``stream``, with ``algorithm`` and with SHA-256."""

    stream: _Readable
    algorithm: str
    size: int = 0
    _hashes: list[hashlib._Hash] = field(init=False)

    def __post_init__(self) -> None:
        names = {"sha256": 0, self.algorithm: 0}
        self._hashes = [hashlib.new(name) for name in names]

    def read(self, size: int, /) -> bytes:
        data = self.stream.read(size)
        self.size += len(data)
        for known in self._hashes:
            known.update(data)
        return data

    def found(self, algorithm: str) -> str:
        """The digest of what was read so far, as RECORD writes it."""
        known = next(known for known in self._hashes if known.name == algorithm)
        return encoded(known.digest())


def encoded(digest: bytes) -> str:
    """A digest as RECORD writes it."""
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def parse_record(text: str, *, wheel: str) -> dict[str, Recorded | None]:
    """The rows by path; None for a file that has no hash. IntegrityError where a row is not valid."""
    rows: dict[str, Recorded | None] = {}
    for row in csv.reader(io.StringIO(text)):
        if not row:
            continue
        if len(row) != 3 or row[0] in rows:
            raise broken(wheel, f"RECORD has a row that is not valid: {','.join(row)!r}")
        path, value, size = row
        if not value:
            rows[path] = None
            continue
        algorithm, equals, digest = value.partition("=")
        if not equals or algorithm not in _ALGORITHMS or (size and not size.isdecimal()):
            raise broken(wheel, f"RECORD has no hash that can be trusted for {path!r}: {value!r}")
        rows[path] = Recorded(algorithm, digest.rstrip("="), int(size) if size else None)
    return rows


def render_record(own: str, installed: Iterable[tuple[str, str, int]]) -> str:
    """RECORD of an installed project: rows of (path, SHA-256 as RECORD writes it, size), sorted, and ``own``'s."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, digest, size in sorted(installed):
        writer.writerow([path, f"sha256={digest}", size])
    writer.writerow([own, "", ""])
    return text.getvalue()


def broken(wheel: str, what: str) -> IntegrityError:
    """The error for a wheel that is not what it says."""
    return IntegrityError(
        what,
        on=f"wheel {wheel}",
        hint="its bytes are the locked ones, so the wheel itself is wrong: tell its publisher, "
        "and lock another version",
    )
