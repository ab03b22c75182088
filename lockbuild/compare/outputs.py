"""Built files against recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from lockbuild.compare.hints import hints
from lockbuild.model.digest import Digest
from lockbuild.model.outcome import BuiltFile, Comparison, FileComparison, Verdict

_CHUNK = 1 << 20


def compare(
    target: str,
    recorded: Iterable[BuiltFile],
    found: Iterable[BuiltFile],
    *,
    recorded_bytes: Callable[[Digest], Path | None],
    found_directory: Path,
    stale_input: Digest | None = None,
) -> Comparison:
    """Every file of either side, sorted by path.

    ``recorded_bytes`` gives a recorded file's bytes where they are at hand: only then can the first differing
    offset be told.
    """
    before = {file.path: file for file in recorded}
    after = {file.path: file for file in found}
    files = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is None:
            files.append(FileComparison(path, Verdict.UNEXPECTED, None, new))
        elif new is None:
            files.append(FileComparison(path, Verdict.MISSING, old, None))
        elif old.sha256 == new.sha256:
            files.append(FileComparison(path, Verdict.SAME, old, new))
        else:
            original = recorded_bytes(old.sha256)
            built = found_directory / path
            offset = first_difference(original, built) if original else None
            told = hints(old, new, original, built)
            files.append(FileComparison(path, Verdict.DIFFERENT, old, new, offset, told))
    return Comparison(target, tuple(files), stale_input)


def first_difference(left: Path, right: Path) -> int | None:
    """The byte offset where two files begin to differ (a shorter one may end there); None where they do not."""
    offset = 0
    with left.open("rb") as a, right.open("rb") as b:
        while True:
            x, y = a.read(_CHUNK), b.read(_CHUNK)
            if x != y:
                shared = min(len(x), len(y))
                return offset + next((i for i in range(shared) if x[i] != y[i]), shared)
            if not x:
                return None
            offset += len(x)
