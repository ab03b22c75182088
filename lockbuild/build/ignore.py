"""Which files of a source directory are its source: git's ignore rules, without git.

gitignore(5): of the patterns that match an entry, the last one counts, and those of a deeper ``.gitignore`` come after
those above. A directory that is ignored is not entered, so nothing below it can be had back. Rules come from the files
named .gitignore between the top of the repository and the file, never from a person's global configuration, nor from
what git's index has: those would make the input depend on the machine. A repository inside begins anew.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from lockbuild.errors import UsageError
from lockbuild.model.wildmatch import expression

_NAME = ".gitignore"
_MOST = 1 << 20
"""Bytes of a .gitignore: what is longer is something else, and would take minutes to read."""


def walk_source(root: Path, excluded: frozenset[Path]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Each file and link below ``root`` that is source, as (posix path below root, entry), sorted by path.

    ``excluded`` are never source (outputs, the lock), whichever way they are named; a link stands for itself. Entries
    named .git are left out. Directories are not given: git knows none either, so an empty one cannot make a clone
    differ. UsageError where all of ``root`` is ignored, or a .gitignore cannot be read.
    """
    above = _rules_above(root)
    if isinstance(above, _Ignored):
        raise UsageError(
            f"it is ignored by {above.file}, so that nothing in it would be source",
            on=str(root),
            hint="take the pattern out there, or except the directory by a later one that begins with !",
        )
    yield from _walk(root, above, _Excluded(excluded))


def source_below(root: Path, directory: Path, excluded: frozenset[Path]) -> Iterator[str]:
    """The files below ``directory``, a path in ``root``, that are source of ``root``, as paths from there."""
    left_out = _Excluded(excluded)
    rules = _rules_down(root, directory, left_out)
    if rules is not None and directory.is_dir():
        yield from (relative for relative, _ in _walk(directory, rules, left_out))


def is_source(root: Path, directory: Path, excluded: frozenset[Path]) -> bool:
    """Whether ``directory``, a path in ``root`` that need not exist, is looked into for source of ``root``."""
    return _rules_down(root, directory, _Excluded(excluded)) is not None


class _Matcher(NamedTuple):
    """Patterns without a slash match names, others paths from the directory of their file."""

    names: re.Pattern[bytes] | None
    paths: re.Pattern[bytes] | None


@dataclass(frozen=True, slots=True)
class _Run:
    """Patterns in a row that say the same, so that it does not matter which of them matches."""

    ignored: bool
    files: _Matcher
    directories: _Matcher


@dataclass(frozen=True, slots=True)
class _Rules:
    """The .gitignore ``file`` as it applies in a directory, which is at ``prefix`` (empty, or with a slash) from it;
    last patterns first."""

    file: str
    runs: tuple[_Run, ...]
    prefix: bytes = b""


@dataclass(frozen=True, slots=True)
class _Ignored:
    """A directory is not entered because of a pattern in ``file``."""

    file: str


_InForce = tuple[_Rules, ...]
"""Innermost first."""


class _Excluded:
    """Paths that are no source, known by what they are: links and mounts give one directory several names."""

    def __init__(self, paths: Collection[Path]) -> None:
        self._names: dict[tuple[int, int], set[str]] = {}
        self._directories: set[tuple[int, int]] = set()
        for path in paths:
            parent = _status(path.parent)
            if parent is not None:
                self._names.setdefault(_identity(parent), set()).add(path.name)
            status = _status(path, follow=False)
            if status is not None and stat.S_ISDIR(status.st_mode):
                self._directories.add(_identity(status))

    def names_in(self, directory: str) -> Collection[str]:
        """The names in ``directory`` that are left out."""
        return self._names.get(_identity(Path(directory).stat()), ()) if self._names else ()

    def has(self, directory: str) -> bool:
        """Whether the whole of ``directory`` is left out. It need not exist."""
        status = _status(directory) if self._directories else None
        return status is not None and _identity(status) in self._directories


def _status(path: str | Path, *, follow: bool = True) -> os.stat_result | None:
    try:
        return Path(path).stat(follow_symlinks=follow)
    except OSError:
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _Level(NamedTuple):
    """A directory that is being walked: what is still to come in it."""

    prefix: str
    entries: Iterator[tuple[bytes, os.DirEntry[str]]]
    rules: _InForce


def _walk(root: Path, rules: _InForce, excluded: _Excluded) -> Iterator[tuple[str, os.DirEntry[str]]]:
    levels = [_level(str(root), "", rules, excluded)]
    while levels:
        prefix, entries, rules = levels[-1]
        for name, entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            if _verdict(name, is_directory, rules):
                continue
            if not is_directory:
                yield prefix + entry.name, entry
            elif not excluded.has(entry.path):
                below = _entered(name, rules)
                levels.append(_level(entry.path, f"{prefix}{entry.name}/", below, excluded))
                break
        else:
            levels.pop()


def _level(directory: str, prefix: str, rules: _InForce, excluded: _Excluded) -> _Level:
    with os.scandir(directory) as entries:
        listing = sorted(((os.fsencode(entry.name), entry) for entry in entries), key=itemgetter(0))
    left_out = {".git", *excluded.names_in(directory)}
    rules = _with_own(directory, rules, {name for name, _ in listing})
    return _Level(prefix, iter([each for each in listing if each[1].name not in left_out]), rules)


def _with_own(
    directory: str, rules: _InForce, names: Collection[bytes] = (b".git", b".gitignore")
) -> _InForce:
    """The rules that hold for what is in ``directory``, of which those above hold in it; it has ``names``, if any."""
    if b".git" in names and os.path.lexists(f"{directory}/.git"):
        rules = ()
    if b".gitignore" not in names:
        return rules
    file = f"{directory}/{_NAME}"
    data = _read(file)
    runs = _parsed(data) if data else ()
    return (_Rules(file, runs), *rules) if runs else rules


def _entered(name: bytes, rules: _InForce) -> _InForce:
    return tuple(_Rules(each.file, each.runs, b"%b%b/" % (each.prefix, name)) for each in rules)


def _verdict(name: bytes, is_directory: bool, rules: _InForce) -> _Ignored | None:
    for each in rules:
        for run in each.runs:
            names, paths = run.directories if is_directory else run.files
            if (names and names.fullmatch(name)) or (paths and paths.fullmatch(each.prefix + name)):
                return _Ignored(each.file) if run.ignored else None
    return None


def _rules_above(root: Path) -> _InForce | _Ignored:
    """The rules of the directories above ``root`` up to the top of its repository."""
    real = Path(os.path.realpath(root))
    top = next((place for place in (real, *real.parents) if os.path.lexists(place / ".git")), real)
    rules: _InForce = ()
    here = top
    for part in real.relative_to(top).parts:
        rules = _with_own(str(here), rules)
        name = os.fsencode(part)
        ignored = _verdict(name, True, rules)
        if ignored:
            return ignored
        rules = _entered(name, rules)
        here /= part
    return rules


def _rules_down(root: Path, directory: Path, excluded: _Excluded) -> _InForce | None:
    """The rules that hold at ``directory``, without its own; None where it is left out by one of them."""
    rules = _rules_above(root)
    if isinstance(rules, _Ignored):
        return None
    here = root
    for part in directory.relative_to(root).parts:
        if here.is_dir():
            rules = _with_own(str(here), rules)
            if part in {".git", *excluded.names_in(str(here))}:
                return None
        name = os.fsencode(part)
        here /= part
        if _verdict(name, True, rules) or excluded.has(str(here)):
            return None
        rules = _entered(name, rules)
    return rules


def _read(file: str) -> bytes | None:
    """None where there is none, or a link: git follows none either."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(_MOST + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise UsageError(
            f"it cannot be read: {error.strerror}",
            on=file,
            hint="make it readable: what is source depends on it",
        ) from error
    if len(data) > _MOST:
        raise UsageError(f"it is longer than {_MOST} bytes", on=file, hint="make it a list of patterns")
    return data


class _Pattern(NamedTuple):
    ignored: bool
    directories_only: bool
    of_path: bool
    expression: bytes


@lru_cache(maxsize=256)
def _parsed(data: bytes) -> tuple[_Run, ...]:
    """The patterns of a .gitignore, last ones first. What is no pattern (``[a``) matches nothing, as in git."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    patterns = [pattern for pattern in map(_pattern, reversed(lines)) if pattern]
    return tuple(_run(ignored, list(each)) for ignored, each in itertools.groupby(patterns, itemgetter(0)))


def _pattern(line: bytes) -> _Pattern | None:
    line = line.removesuffix(b"\r").partition(b"\0")[0]
    if line.startswith(b"#"):
        return None
    text = _trimmed(line)
    negated = text.startswith(b"!")
    text = text[negated:]
    directories_only = text.endswith(b"/")
    text = text.removesuffix(b"/")
    of_path = b"/" in text
    text = text.removeprefix(b"/")
    try:
        return _Pattern(not negated, directories_only, of_path, expression(text)) if text else None
    except ValueError:
        return None


def _trimmed(line: bytes) -> bytes:
    """Without spaces at the end, of which a backslash keeps the first."""
    kept = len(line.rstrip(b" "))
    escapes = len(line[:kept]) - len(line[:kept].rstrip(b"\\"))
    return line[: kept + escapes % 2]


def _run(ignored: bool, patterns: list[_Pattern]) -> _Run:
    return _Run(
        ignored,
        files=_matcher([pattern for pattern in patterns if not pattern.directories_only]),
        directories=_matcher(patterns),
    )


def _matcher(patterns: list[_Pattern]) -> _Matcher:
    return _Matcher(
        _any(pattern.expression for pattern in patterns if not pattern.of_path),
        _any(pattern.expression for pattern in patterns if pattern.of_path),
    )


def _any(expressions: Iterator[bytes]) -> re.Pattern[bytes] | None:
    alternatives = b"|".join(expressions)
    return re.compile(alternatives, re.DOTALL) if alternatives else None
