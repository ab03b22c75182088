"""A tree from commits: that of the repository, those of submodules in their places, and a ``.git`` where asked for.

For ``describe`` the lock has what git said of the commit when it was locked, in the parameters

    describe            as ``git describe --tags``: ``v1.2-3-g<id>``, the tag, how many commits after it, the
                        commit; or ``<id>`` where there is no tag
    describe-annotated  the same as ``git describe``, which knows annotated tags only; not there without one
    abbrev              how many digits git shows of an id

The ``.git`` has the commit itself and none before it. So that git comes to the same answers, a replacement of the
commit (git-replace(1)) leads over as many empty commits to those with the tags; where both are at the commit
itself, or there are none, the history simply ends there (as in a shallow clone). What else git says of history
(``git log`` past the first commit, ``git rev-list --count``) is therefore not so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockbuild.archive import gitpack
from lockbuild.archive.extract import extract_tar
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import IntegrityError
from lockbuild.model.lock import Source

_DESCRIPTION = re.compile(r"(?:(?P<tag>[^\s~^:?*\[\\]+)-(?P<distance>\d{1,7})-g)?(?P<commit>[0-9a-f]{40})")
_NOBODY = "lockbuild <lockbuild> 0 +0000"
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tabbrev = {abbrev}
[gc]
\tauto = 0
"""


def git_tree(
    sources: Sequence[Source], files: Sequence[Path], root: Path, *, mount: str, parameters: Mapping[str, str]
) -> None:
    """Unpack each source's tar (``files``) at its place below ``root``/``mount``.

    IntegrityError where one is not safe to unpack or would stand where a link leads.
    """
    base = root / mount.strip("/")
    base.mkdir(parents=True, exist_ok=True)
    for source, file in sorted(zip(sources, files, strict=True), key=lambda pair: pair[0].at or ""):
        place = base
        for part in (source.at or "").split("/") if source.at else ():
            place = place / part
            if place.is_symlink():
                raise IntegrityError(f"{source.at} would be unpacked through a symbolic link", on=source.purl)
        extract_tar(file, place, name=f"{source.url} at {source.commit}")
        if source.is_git_directory:
            complete(place, parameters)


def complete(directory: Path, parameters: Mapping[str, str]) -> None:
    """Add to the git directory what the lock says of its commit."""
    commit = (directory / "HEAD").read_text().strip()
    said = _parsed(parameters, commit)
    longest = max((tag.distance for tag in said.tags), default=0)
    chain = _chain(longest)
    objects: list[tuple[gitpack.Type, bytes]] = [("commit", each) for each in chain]
    references: dict[str, str] = {}
    with TreeWriter(directory, origin=".git") as writer:
        writer.file("config", _CONFIG.format(abbrev=said.abbrev).encode(), executable=False)
        writer.directory("refs/heads")
        writer.directory("refs/tags")
        if longest:
            kind, content = gitpack.read_loose((directory / "objects" / commit[:2] / commit[2:]).read_bytes())
            if kind != "commit" or gitpack.object_id("commit", content) != commit:
                raise IntegrityError("its git directory has another commit", on=commit)
            replacement = _with_parent(content, gitpack.object_id("commit", chain[-1]))
            objects.append(("commit", replacement))
            references[f"refs/replace/{commit}"] = gitpack.object_id("commit", replacement)
        else:
            writer.file("shallow", f"{commit}\n".encode(), executable=False)
        for tag in said.tags:
            place = gitpack.object_id("commit", chain[longest - tag.distance]) if tag.distance else commit
            reference = f"refs/tags/{tag.name}"
            if tag.annotated:
                about = f"object {place}\ntype commit\ntag {tag.name}\ntagger {_NOBODY}\n\n".encode()
                objects.append(("tag", about))
                references[reference] = f"{gitpack.object_id('tag', about)} {place}"
            else:
                references[reference] = place
        if references:
            writer.file("packed-refs", _packed(references), executable=False)
        if objects:
            made = gitpack.pack(objects)
            writer.file(f"objects/pack/{made.name}.pack", made.pack, executable=False)
            writer.file(f"objects/pack/{made.name}.idx", made.index, executable=False)
    os.utime(directory, ns=(0, 0))


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    distance: int
    annotated: bool


@dataclass(frozen=True, slots=True)
class _Description:
    tags: tuple[_Tag, ...]
    abbrev: int


def _parsed(parameters: Mapping[str, str], commit: str) -> _Description:
    tags: dict[str, _Tag] = {}
    for key in ("describe", "describe-annotated"):
        text = parameters.get(key)
        if text is None and key != "describe":
            continue
        found = _DESCRIPTION.fullmatch(text or "")
        if found is None or found["commit"] != commit:
            raise _edited(f"{key} = {text!r}, {commit}")
        if found["tag"] is not None:
            tags[found["tag"]] = _Tag(found["tag"], int(found["distance"]), key != "describe")
    abbrev = parameters.get("abbrev", "")
    if not re.fullmatch(r"[4-9]|[1-3]\d|40", abbrev):
        raise _edited(f"abbrev = {abbrev!r}")
    return _Description(tuple(tags.values()), int(abbrev))


def _edited(on: str) -> IntegrityError:
    return IntegrityError(
        "the parameters of the tree do not describe its commit",
        on=on,
        hint="the lock was edited; run `lockbuild lock --upgrade`",
    )


def _packed(references: Mapping[str, str]) -> bytes:
    """The file packed-refs; a value has the id, and for an annotated tag that of its commit after a blank."""
    lines = ["# pack-refs with: peeled fully-peeled sorted "]
    for name, value in sorted(references.items()):
        object_id, _, peeled = value.partition(" ")
        lines += [f"{object_id} {name}", *([f"^{peeled}"] if peeled else [])]
    return "".join(f"{line}\n" for line in lines).encode()


def _chain(length: int) -> list[bytes]:
    """As many commits, each the parent of the next, that stand for history; the first has no parent."""
    chain: list[bytes] = []
    parent = ""
    for _ in range(length):
        content = (
            f"tree {_EMPTY_TREE}\n{parent}author {_NOBODY}\ncommitter {_NOBODY}\n\nhistory that is left out\n"
        )
        chain.append(content.encode())
        parent = f"parent {gitpack.object_id('commit', chain[-1])}\n"
    return chain


def _with_parent(content: bytes, parent: str) -> bytes:
    """The commit with one other parent in the place of its own."""
    head, separator, message = content.partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith(b"parent ")]
    lines.insert(1, f"parent {parent}".encode())
    return b"\n".join(lines) + separator + message
