"""Choosing a build's outputs and putting them in place.

A pattern names a file or directory below the build directory, with git's wildcards; a directory stands for
everything in it. Each pattern must match something. Outputs are regular files whose names are UTF-8. They land as
one: the directory is complete beside its final place, then takes that.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from lockbuild.build.replace import replace_directory
from lockbuild.descent import below, remove
from lockbuild.errors import BuildError, UsageError, storage_error
from lockbuild.model.digest import Digest
from lockbuild.model.outcome import BuiltFile
from lockbuild.model.wildmatch import expression
from lockbuild.reading import read_regular
from lockbuild.sandbox import holes

CHECKSUMS = "SHA256SUMS"
_MARK = "# Outputs of lockbuild, which replaces them as a whole.\n"
"""Begins our list; sha256sum(1) passes over comments."""
"""Stands in every output directory (`sha256sum -c` reads it), and marks which files there are lockbuild's."""

IGNORE = ".gitignore"
_NOT_SOURCE = "# Made by lockbuild: outputs are not source.\n*\n"
ELSEWHERE = "or put the outputs elsewhere with -o DIR"
"""What a hint about the directory ends with."""


class OutputPatterns:
    """The ``outputs`` of a target as a predicate that remembers which patterns matched."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._regexes = {pattern: _regex(pattern) for pattern in patterns}
        self._unmatched = set(patterns)

    def __call__(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the build directory, is an output. A pattern also names the
        file that is called exactly so, whatever wildcards are in it."""
        name = os.fsencode(path)
        matched = [
            pattern for pattern, regex in self._regexes.items() if pattern == path or regex.fullmatch(name)
        ]
        self._unmatched.difference_update(matched)
        return bool(matched)

    @property
    def unmatched(self) -> list[str]:
        """The patterns that no file matched so far, in the manifest's order."""
        return [pattern for pattern in self._regexes if pattern in self._unmatched]


def _regex(pattern: str) -> re.Pattern[bytes]:
    """Of files that ``pattern`` matches (unless it ends with a slash), and of those in directories that it does."""
    path = PurePosixPath(pattern)
    matched = expression(os.fsencode(path)) if path.parts else b".*"
    return re.compile(matched + (b"/.*" if path.parts and pattern.endswith("/") else b"(?:/.*)?"), re.DOTALL)


def collect(
    export: Callable[[Path, Callable[[str], bool]], None], patterns: Sequence[str], into: Path
) -> list[BuiltFile]:
    """Export the outputs that ``patterns`` name to ``into``, and hash them.

    BuildError for what is missing, no regular file, or has a name that a lock or a list of checksums cannot hold.
    """
    chosen = OutputPatterns(patterns)
    export(into, chosen)
    if chosen.unmatched:
        missing = ", ".join(chosen.unmatched)
        raise BuildError(
            f"the steps succeeded, but made no {missing}",
            hint="outputs are relative to $BUILD; look at the build log, or at the sandbox with `lockbuild shell`",
        )
    if (into / CHECKSUMS).exists():
        raise BuildError(
            f"an output must not be called {CHECKSUMS}: lockbuild puts its own list there",
            hint="give it another name, or put it into a directory",
        )
    files = measure(into)
    odd = [file.path for file in files if not _is_utf8(file.path)]
    if odd:
        raise BuildError(
            f"the name of an output is not UTF-8: {', '.join(ascii(path) for path in odd)}",
            hint="a lock is UTF-8 text and cannot name it; rename it in a step",
        )
    return files


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def measure(directory: Path) -> list[BuiltFile]:
    """Size and digest of every file below ``directory``, sorted by path; the checksums file is not one."""
    files = []
    for relative, status in below(directory):
        if not stat.S_ISREG(status.st_mode) or relative == CHECKSUMS:
            continue
        with (directory / relative).open("rb") as stream:
            value = hashlib.file_digest(stream, "sha256").hexdigest()
        files.append(BuiltFile(relative, status.st_size, Digest(value)))
    return sorted(files)


def check_destination(destination: Path) -> None:
    """UsageError where ``destination`` cannot be replaced: it holds anything that lockbuild did not put there, or
    its parent cannot be written to."""
    if destination.is_symlink():
        raise UsageError("it is a symbolic link", on=str(destination), hint=f"remove it, {ELSEWHERE}")
    if destination.exists() and not destination.is_dir():
        raise UsageError("it is not a directory", on=str(destination), hint=f"move it away, {ELSEWHERE}")
    parent = next(path for path in destination.parents if os.path.lexists(path))
    if not parent.is_dir():
        raise UsageError("it is not a directory", on=str(parent), hint=f"move it away, {ELSEWHERE}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(
            "outputs cannot be put there: it cannot be written to",
            on=str(parent),
            hint=f"make that so, {ELSEWHERE}",
        )
    if not destination.is_dir():
        return
    found = sorted(relative for relative, status in below(destination) if not stat.S_ISDIR(status.st_mode))
    # Those of several targets have a list each, also where the project has only one now.
    lists = [relative for relative in found if relative.rpartition("/")[2] == CHECKSUMS]
    own = {name for relative in lists for name in _own(destination, relative.removesuffix(CHECKSUMS))}
    foreign = [relative for relative in found if relative not in own]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise UsageError(
            f"it holds files that lockbuild did not put there: {', '.join(foreign[:3])}{more}",
            on=str(destination),
            hint="move them away, or choose another place with -o DIR; the directory is replaced as a whole",
        )


def publish(staged: Path, files: Iterable[BuiltFile], destination: Path, *, ignored: bool = False) -> None:
    """Move ``files`` from ``staged`` to ``destination`` in one step, with a list of their checksums; ``ignored`` with
    a file, too, by which git ignores all of them.

    UsageError as `check_destination`; FetchError where the disk is full.
    """
    files = sorted(files)
    if ignored and any(file.path == IGNORE for file in files):
        raise UsageError(
            f"an output is called {IGNORE}, and lockbuild needs one of its own there, since this is a source directory",
            on=str(destination),
            hint=f"ignore the directory in the project's {IGNORE}, {ELSEWHERE}",
        )
    fresh = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.new")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        if ignored:
            (fresh / IGNORE).write_text(_NOT_SOURCE, encoding="utf-8", newline="\n")
        for file in files:
            target = fresh / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(staged / file.path, target)
        lines = _MARK + "".join(_checksum_line(file) for file in files)
        (fresh / CHECKSUMS).write_text(lines, encoding="utf-8", newline="\n")
        _sync(fresh / CHECKSUMS)
        replace_directory(fresh, destination, check=lambda: check_destination(destination))
    except OSError as error:
        raise storage_error(
            error, "the outputs cannot be put there", on=str(destination), instead=ELSEWHERE
        ) from error
    finally:
        with suppress(OSError):
            remove(fresh)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with source.open("rb") as stream, target.open("xb") as out:
            holes.copy(stream.fileno(), out.fileno())
            os.fchmod(out.fileno(), source.stat().st_mode & 0o777)
    _sync(target)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _checksum_line(file: BuiltFile) -> str:
    """As sha256sum(1) writes and reads it: a name with a newline or backslash is escaped, and the line marked."""
    escaped = file.path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == file.path else chr(92)}{file.sha256.hex}  {escaped}\n"


def _is_ours(ignore: Path) -> bool:
    try:
        return read_regular(ignore) == _NOT_SOURCE.encode()
    except OSError:
        return False


def _own(destination: Path, prefix: str) -> set[str]:
    """What we put into the directory ``prefix`` of ``destination``, relative to that: nothing where the list there is
    not ours. Others make such lists of their own files, too."""
    directory = destination / prefix
    try:
        text = read_regular(directory / CHECKSUMS).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    if not text.startswith(_MARK):
        return set()
    names = {CHECKSUMS, *([IGNORE] if _is_ours(directory / IGNORE) else [])}
    for line in text.removeprefix(_MARK).split("\n"):
        digest, _, name = line.partition("  ")
        if digest.startswith("\\"):
            name = re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), name)
        names.add(name)
    return {prefix + name for name in names if name}
