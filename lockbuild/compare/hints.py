"""Short textual hints at why two versions of a file differ: a path, the clock, the size.

Looks at printable text only. What a section of a module says is for a deeper explanation.
"""

from __future__ import annotations

import re
from pathlib import Path

from lockbuild.model.outcome import BuiltFile

_PATH = re.compile(
    rb"/(?:build|home|root|tmp|opt|usr|var|Users|nix|private|mnt|srv|workspace)/[\x21-\x7e]{2,200}"
)
_CLOCK = re.compile(
    rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-3]\d (?:19|20)\d\d"
    rb"|\b[0-2]\d:[0-5]\d:[0-5]\d\b"
    rb"|\b(?:19|20)\d\d-[01]\d-[0-3]\d\b"
)
SANDBOX_PATH = re.compile(
    rb"/(?:build/(?:source|build|home|sources)|opt/[A-Za-z0-9._-]+)(?:/[\x21-\x7e]{0,200})?"
)
"""A path as only a sandbox has it."""


def hints(recorded: BuiltFile, found: BuiltFile, original: Path | None, built: Path) -> tuple[str, ...]:
    """What stands in the new bytes and not in the recorded ones; without those, what stands in the new bytes."""
    told = []
    if recorded.size != found.size:
        change = found.size - recorded.size
        told.append(f"size: {recorded.size} -> {found.size} bytes ({change:+d})")
    before = original.read_bytes() if original else b""
    after = built.read_bytes()
    for name, pattern in (("embedded path", _PATH), ("date or time", _CLOCK)):
        known = set(pattern.findall(before))
        fresh = [text for text in pattern.findall(after) if text not in known]
        if fresh:
            told.append(f"{name}: {fresh[0].decode('ascii', 'replace')}")
    return tuple(told)


def sandbox_paths(file: Path, *, limit: int = 3) -> list[str]:
    """Paths of the sandbox that stand in ``file``, each once, at most ``limit``."""
    found: dict[str, None] = {}
    for match in SANDBOX_PATH.finditer(file.read_bytes()):
        found.setdefault(match.group().decode("ascii", "replace"))
        if len(found) >= limit:
            break
    return list(found)
