"""Choosing a build's outputs and putting them in place.

A pattern names a file or directory below the build directory, with git's wildcards; a directory stands for
everything in it. Each pattern must match something. Outputs land as one: the directory is complete beside its
final place, then exchanged by rename.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lockbuild.errors import BuildError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.outcome import BuiltFile

CHECKSUMS = "SHA256SUMS"
"""Stands in every output directory (`sha256sum -c` reads it), and marks which files there are lockbuild's."""


class OutputPatterns:
    """The ``outputs`` of a target as a predicate that remembers which patterns matched."""

    def __init__(self, patterns: Sequence[str]) -> None:
        from pathspec import GitIgnoreSpec

        self._specs = {pattern: GitIgnoreSpec.from_lines(["/" + pattern.lstrip("/")]) for pattern in patterns}
        self._unmatched = set(patterns)

    def __call__(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the build directory, is an output."""
        matched = [pattern for pattern, spec in self._specs.items() if spec.match_file(path)]
        self._unmatched.difference_update(matched)
        return bool(matched)

    @property
    def unmatched(self) -> list[str]:
        """The patterns that no file matched so far, in the manifest's order."""
        return [pattern for pattern in self._specs if pattern in self._unmatched]


def collect(
    export: Callable[[Path, Callable[[str], bool]], None], patterns: Sequence[str], into: Path
) -> list[BuiltFile]:
    """Export the outputs that ``patterns`` name to ``into``, and hash them. BuildError for what is missing."""
    chosen = OutputPatterns(patterns)
    export(into, chosen)
    if chosen.unmatched:
        missing = ", ".join(chosen.unmatched)
        raise BuildError(
            f"the steps succeeded, but made no {missing}",
            hint="outputs are relative to $BUILD; look at the build log, or at the sandbox with `lockbuild shell`",
        )
    return measure(into)


def measure(directory: Path) -> list[BuiltFile]:
    """Size and digest of every file below ``directory``, sorted by path; the checksums file is not one."""
    files = []
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory).as_posix()
        if path.is_symlink() or not path.is_file() or relative == CHECKSUMS:
            continue
        with path.open("rb") as stream:
            value = hashlib.file_digest(stream, "sha256").hexdigest()
        files.append(BuiltFile(relative, path.stat().st_size, Digest(value)))
    return sorted(files)


def check_destination(destination: Path) -> None:
    """UsageError where ``destination`` holds anything that lockbuild did not put there: it will be replaced."""
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise UsageError(
            "it is not a directory", on=str(destination), hint="choose another place with -o DIR"
        )
    if not destination.is_dir():
        return
    own = {CHECKSUMS, *_listed(destination)}
    foreign = [
        path.relative_to(destination).as_posix()
        for path in sorted(destination.rglob("*"))
        if not path.is_dir() and path.relative_to(destination).as_posix() not in own
    ]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise UsageError(
            f"it holds files that lockbuild did not put there: {', '.join(foreign[:3])}{more}",
            on=str(destination),
            hint="move them away, or choose another place with -o DIR; the directory is replaced as a whole",
        )


def publish(staged: Path, files: Iterable[BuiltFile], destination: Path) -> None:
    """Put what is in ``staged`` at ``destination`` in one step, with its checksums file."""
    lines = "".join(f"{file.sha256.hex}  {file.path}\n" for file in sorted(files))
    destination.parent.mkdir(parents=True, exist_ok=True)
    suffix = secrets.token_hex(4)
    fresh = destination.with_name(f".{destination.name}.{suffix}.new")
    old = destination.with_name(f".{destination.name}.{suffix}.old")
    try:
        shutil.copytree(staged, fresh)
        (fresh / CHECKSUMS).write_text(lines, encoding="utf-8", newline="\n")
        for path in fresh.rglob("*"):
            _sync(path)
        if destination.exists():
            check_destination(destination)
            destination.rename(old)
            try:
                fresh.rename(destination)
            except OSError:
                old.rename(destination)
                raise
        else:
            fresh.rename(destination)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())


def _listed(directory: Path) -> set[str]:
    try:
        text = (directory / CHECKSUMS).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    return {line.split("  ", 1)[1] for line in text.splitlines() if "  " in line}
