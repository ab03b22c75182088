"""Which files of a source directory are its source: git's ignore rules, without git.

gitignore(5): patterns of a deeper ``.gitignore`` win over those above; what is below an ignored directory is
ignored. Rules come from the files named .gitignore between the top of the repository and the file, never from a
person's global configuration: those would make the input depend on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class _Rules:
    """The .gitignore of one directory."""

    directory: Path
    spec: GitIgnoreSpec


def walk_source(root: Path, excluded: frozenset[Path]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Each file and link below ``root`` that is source, as (posix path below root, entry), sorted by path.

    ``excluded`` are absolute paths that are never source (outputs, the lock). Entries named .git are left out.
    Directories are not given: git knows none either, so an empty one cannot make a clone differ.
    """
    yield from _walk(root, "", _rules_above(root), excluded)


def source_below(root: Path, directory: Path, excluded: frozenset[Path]) -> Iterator[str]:
    """The files below ``directory``, a path in ``root``, that are source of ``root``, as paths from there."""
    rules = _rules_down(root, directory, excluded)
    if rules is not None and directory.is_dir():
        yield from (relative for relative, _ in _walk(directory, "", rules, excluded))


def is_source(root: Path, directory: Path, excluded: frozenset[Path]) -> bool:
    """Whether files in ``directory``, a path in ``root`` that need not exist, are source of ``root``, unless rules of
    its own say otherwise."""
    return _rules_down(root, directory, excluded) is not None


def _rules_down(root: Path, directory: Path, excluded: frozenset[Path]) -> tuple[_Rules, ...] | None:
    """The rules that hold at ``directory``, without its own; None where it is left out by one of them."""
    rules = _rules_above(root)
    here = root
    for part in directory.relative_to(root).parts:
        rules += _rules_of(here)
        here /= part
        if part == ".git" or here in excluded or _ignored(here, True, rules):
            return None
    return rules


def _walk(
    directory: Path, prefix: str, rules: tuple[_Rules, ...], excluded: frozenset[Path]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    rules = rules + _rules_of(directory)
    with os.scandir(directory) as entries:
        listing = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in listing:
        path = directory / entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or path in excluded or _ignored(path, is_directory, rules):
            continue
        relative = f"{prefix}{entry.name}"
        if is_directory:
            yield from _walk(path, f"{relative}/", rules, excluded)
        else:
            yield relative, entry


def _ignored(path: Path, is_directory: bool, rules: tuple[_Rules, ...]) -> bool:
    for rule in reversed(rules):
        relative = path.relative_to(rule.directory).as_posix() + ("/" if is_directory else "")
        verdict = rule.spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False


def _rules_of(directory: Path) -> tuple[_Rules, ...]:
    from pathspec import GitIgnoreSpec

    try:
        text = (directory / ".gitignore").read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ()
    return (_Rules(directory, GitIgnoreSpec.from_lines(text.splitlines())),)


def _rules_above(root: Path) -> tuple[_Rules, ...]:
    """The rules of the directories above ``root`` up to the top of its repository, outermost first."""
    above: list[Path] = []
    for directory in (root, *root.parents):
        if directory != root:
            above.append(directory)
        if (directory / ".git").exists():
            return tuple(rule for parent in reversed(above) for rule in _rules_of(parent))
    return ()
