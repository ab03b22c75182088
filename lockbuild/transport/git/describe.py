"""What ``git describe`` says of a commit, from its history without trees.

The answer depends on the tags that there are at the moment, so it belongs into a lock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lockbuild.transport.git.process import Git, GitFailedError

_LONG = re.compile(r"(.+)-(\d+)-g([0-9a-f]{40})")
_SHORTEST = 7
_OBJECTS_PER_COMMIT = 16


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, and how many commits of the described one's history are not in the tag's."""

    name: str
    distance: int


@dataclass(frozen=True, slots=True)
class Description:
    """The nearest tag of any kind (``git describe --tags``), the nearest annotated one (``git describe``).

    None where there is none; ``abbrev`` is how many digits git shows of an id in a clone.
    """

    tag: Tag | None
    annotated: Tag | None
    abbrev: int


def describe(git: Git, repository: Path, commit: str) -> Description:
    """The description of ``commit``, whose history and tags are in ``repository``."""
    count = int(git.run(["rev-list", "--count", commit], repository=repository))
    nearest = _nearest(git, repository, commit, "--tags")
    return Description(nearest, _nearest(git, repository, commit) if nearest else None, _abbrev(count))


def _nearest(git: Git, repository: Path, commit: str, *options: str) -> Tag | None:
    try:
        said = git.run(["describe", *options, "--long", "--abbrev=40", commit], repository=repository)
    except GitFailedError as failure:
        if re.search(r"No names found|No tags can describe|No annotated tags can describe", failure.text):
            return None
        raise
    found = _LONG.fullmatch(said.decode("utf-8", "replace").strip())
    if found is None:
        raise GitFailedError(f"git describe says {said!r}", 0)
    return Tag(found[1], int(found[2]))


def _abbrev(commits: int) -> int:
    """How many digits git shows where ids are abbreviated: it depends on how many objects there are.

    That is another number in each kind of clone, so it is taken from the length of the history.
    """
    return max(_SHORTEST, ((commits * _OBJECTS_PER_COMMIT).bit_length() + 1) // 2)
