"""Short textual hints at why two versions of a file differ: a path, the clock, the size.

Looks at printable text only. What a section of a module says is for a deeper explanation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

_SANDBOX_ROOTS = (b"/build/", b"/opt/")
_WINDOW = 4 << 20
_LONGEST = 512
"""More bytes than any of the patterns matches."""


def hints(recorded: BuiltFile, found: BuiltFile, original: Path | None, built: Path) -> tuple[str, ...]:
    """What stands in the new bytes and not in the recorded ones; without those, what stands in the new bytes."""
    told = []
    if recorded.size != found.size:
        change = found.size - recorded.size
        told.append(f"size: {recorded.size} -> {found.size} bytes ({change:+d})")
    for name, pattern in (("embedded path", _PATH), ("date or time", _CLOCK)):
        known = set(_found(pattern, original)) if original else set()
        fresh = next((text for text in _found(pattern, built) if text not in known), None)
        if fresh is not None:
            told.append(f"{name}: {fresh.decode('ascii', 'replace')}")
    return tuple(told)


def sandbox_paths(file: Path, *, limit: int = 3) -> list[str]:
    """Paths of the sandbox that stand in ``file``, each once, at most ``limit``."""
    found: dict[str, None] = {}
    for text in _found(SANDBOX_PATH, file, containing=_SANDBOX_ROOTS):
        found.setdefault(text.decode("ascii", "replace"))
        if len(found) >= limit:
            break
    return list(found)


def _found(pattern: re.Pattern[bytes], file: Path, *, containing: tuple[bytes, ...] = ()) -> Iterator[bytes]:
    """Every match of ``pattern`` in a file of any size, in memory of a few megabytes.

    Looks closely only at windows that have one of ``containing``, where any are given.
    """
    with file.open("rb") as stream:
        window = b""
        while True:
            chunk = stream.read(_WINDOW)
            window += chunk
            # What begins near the end of a window may go on in the next one.
            certain = len(window) if not chunk else max(0, len(window) - _LONGEST)
            after = certain
            if not containing or any(text in window for text in containing):
                for match in pattern.finditer(window):
                    if match.start() >= certain:
                        break
                    after = max(certain, match.end())
                    yield match.group()
            if not chunk:
                return
            window = window[after:]
