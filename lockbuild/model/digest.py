"""SHA-256 digests as a type, written as OCI does: ``sha256:<64 lower-case hex digits>``.

OCI image specification, descriptor.md, "Digests".
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from lockbuild.model.text import TextValue

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Digest(TextValue):
    """A SHA-256 digest. ``str()`` gives ``sha256:<hex>``; ``hex`` the bare digits."""

    hex: str

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.hex):
            raise ValueError(f"{self.hex!r} is not a SHA-256 digest (64 lower-case hex digits)")

    def __str__(self) -> str:
        return f"sha256:{self.hex}"

    @property
    def short(self) -> str:
        """The first twelve digits, for people."""
        return self.hex[:12]

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read ``sha256:<hex>``; ValueError for anything else."""
        algorithm, colon, value = text.partition(":")
        if not colon or algorithm != "sha256":
            raise ValueError(f"{text!r} is not a digest; write sha256:<64 hex digits>")
        return cls(value)

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """The digest of ``data``."""
        return cls(hashlib.sha256(data).hexdigest())

    @classmethod
    def text_schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
