"""A lock with a merge conflict in it: what of its two sides can stay, so that locking again resolves the rest.

Lines are the wrong unit to merge a lock by: two closures mixed line by line can be sound TOML and fit together in
nothing. The unit is a tree with its sources. Where git still has the conflict's sides they are read from there, and
each is a whole lock; a tree then comes from the side whose manifest keys it has now, or that changed it. Otherwise
the sides are put together from the text between the markers, where what was merged silently is in both: then only
trees that are the same on both sides stay.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import InvalidFileError, UsageError
from lockbuild.events import Note, Reporter
from lockbuild.model.belonging import locked_platforms, tree_names
from lockbuild.model.lock import InputValue, Lock, LockedTree, ManifestRecord, RecordedOutputs
from lockbuild.model.lockfile import canonical, loads
from lockbuild.model.manifest import Manifest
from lockbuild.model.platform import Platform
from lockbuild.model.read import parse_toml, validate
from lockbuild.model.soundness import inputs_digest, problems
from lockbuild.resolve.context import Resolution
from lockbuild.workflow.parts import Parts, kept, limited, same

_STAGE = re.compile(r"\d+ ([0-9a-f]+) ([123])\t")


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of a conflict and where known what they come from; None for a side that is no lock. ``exact`` where
    each is as somebody committed it."""

    ours: Lock | None
    theirs: Lock | None
    base: Lock | None
    exact: bool


def resolved_conflict(file: Path, text: str, manifest: Manifest, report: Reporter) -> Lock:
    """The lock to go on from: it has the trees that stay, and says of those only that it was made from ``manifest``.

    ``text`` is that of ``file``.
    """
    sides = _from_git(file) or _from_text(text, file)
    merge = _Merge(sides, manifest)
    lock = merge.lock()
    report(Note(f"{file.name} has a merge conflict; {merge.summary()}"))
    return lock


class _Merge:
    def __init__(self, sides: Sides, manifest: Manifest) -> None:
        self._exact = sides.exact
        self._manifest = manifest
        self._inputs = manifest.inputs()
        self._sides = [side for side in (sides.ours, sides.theirs) if side is not None]
        if not sides.exact and len(self._sides) < 2:
            self._sides = []  # of one side alone nobody can say what belongs to it
        self._base = sides.base
        self._chosen: dict[str, Resolution] = {}
        self._again: list[str] = []
        self._dropped: list[str] = []

    def lock(self) -> Lock:
        for name in tree_names(self._manifest):
            if name.startswith("derive."):
                continue
            part = self._choose(name)
            if part is None:
                self._again.append(name)
            else:
                self._chosen[name] = part
        parts = Parts()
        for part in self._chosen.values():
            parts.add(part)
        lock = Lock(
            manifest=self._record(),
            suites=list(parts.suites.values()),
            trees=parts.trees,
            sources=list(parts.sources.values()),
            outputs=self._outputs(),
        )
        whole = next((side for side in self._sides if self._has_all_of(side)), None)
        if whole is not None:
            derived = [
                tree for tree in whole.trees if tree.unpack == "derive" and self._fits(whole, tree.name)
            ]
            images = dict(whole.environments) if _title(whole.manifest) == _title(lock.manifest) else {}
            lock = lock.model_copy(update={"trees": [*lock.trees, *derived], "environments": images})
        return canonical(limited(lock, self._platforms()))

    def summary(self) -> str:
        """For people: what stays and what does not."""
        text = f"pins kept of {', '.join(self._chosen) or 'nothing'}"
        if self._again:
            text += f"; locked again: {', '.join(self._again)}"
        if self._dropped:
            text += f"; records of {', '.join(self._dropped)} differ and are gone: record them anew"
        return text

    def _choose(self, name: str) -> Resolution | None:
        """What stays of a request: what both sides have, or what the side has that is right."""
        found = [(side, part) for side in self._sides if (part := kept(side, name)) is not None]
        fitting = [part for side, part in found if self._fits(side, name)]
        if not fitting or not (self._exact or len(fitting) == 2):
            return None
        if len(found) == 2 and _equal(found[0][1], found[1][1]):
            return _with_digests(found[0][1], found[1][1].trees)
        if not self._exact:
            return None
        before = kept(self._base, name) if self._base is not None else None
        changed = [part for part in fitting if before is None or not _equal(part, before)]
        return (changed or fitting)[0]

    def _fits(self, side: Lock, name: str) -> bool:
        """Whether the side was made from the manifest's keys of that tree."""
        return _keys(side.manifest.inputs, name) == _keys(self._inputs, name)

    def _has_all_of(self, side: Lock) -> bool:
        """Whether all of the environment stays as the side has it."""
        names = [name for name in tree_names(self._manifest) if name.partition(".")[0] in ("base", "tools")]
        for name in names:
            part = kept(side, name)
            if part is None or name not in self._chosen or not _equal(part, self._chosen[name]):
                return False
        return True

    def _record(self) -> ManifestRecord:
        """That the trees which stay were made from the manifest, and no other."""
        names = [*self._chosen, *(f"derive.{name}" for name in self._manifest.toolchain.derive)]
        inputs = {
            key: value
            for key, value in self._inputs.items()
            if key in ("name", "platforms") or any(key.startswith(f"{name}.") for name in names)
        }
        return ManifestRecord(digest=inputs_digest(inputs), inputs=inputs)

    def _platforms(self) -> list[Platform]:
        """The manifest's, and those that a side was given beside those of its manifest."""
        added = [
            platform
            for side in self._sides
            for platform in locked_platforms(side)
            if str(platform) not in _listed(side.manifest.inputs.get("platforms"))
        ]
        return [*self._manifest.toolchain.platforms, *added]

    def _outputs(self) -> dict[str, RecordedOutputs]:
        """Records that both sides have, or that one of them made."""
        result: dict[str, RecordedOutputs] = {}
        for target in self._manifest.project.targets:
            before = self._base.outputs.get(target) if self._base is not None else None
            found = [side.outputs[target] for side in self._sides if target in side.outputs]
            changed = [record for record in found if record != before]
            if found and all(record == found[0] for record in found):
                result[target] = found[0]
            elif len(changed) == 1:
                result[target] = changed[0]
            elif found:
                self._dropped.append(target)
        return result


def _keys(inputs: dict[str, InputValue], name: str) -> dict[str, InputValue]:
    return {key: value for key, value in inputs.items() if key.startswith(f"{name}.")}


def _title(manifest: ManifestRecord) -> InputValue | None:
    """What images are called: the toolchain's name."""
    return manifest.inputs.get("name")


def _listed(value: InputValue | None) -> Sequence[str]:
    return value if isinstance(value, list) else ()


def _equal(one: Resolution, other: Resolution) -> bool:
    return same(one, other) and set(one.suites) == set(other.suites)


def _with_digests(part: Resolution, trees: Iterable[LockedTree]) -> Resolution:
    """The part with the digests that the other side found out."""
    known = {tree.id: tree.digest for tree in trees}
    return Resolution(
        tuple(tree.model_copy(update={"digest": tree.digest or known.get(tree.id)}) for tree in part.trees),
        part.sources,
        part.suites,
    )


def _from_git(file: Path) -> Sides | None:
    """The sides as git's index has them; None where it has none (any more)."""
    listed = _git(file.parent, "ls-files", "--unmerged", "--", file.name)
    stages = {match[2]: match[1] for match in _STAGE.finditer(listed or "")}
    if not {"2", "3"} <= stages.keys():
        return None
    base, ours, theirs = (
        _strict(_git(file.parent, "cat-file", "blob", stages[stage]), file) if stage in stages else None
        for stage in "123"
    )
    return Sides(ours, theirs, base, exact=True)


def _git(directory: Path, *arguments: str) -> str | None:
    """What git says of the repository that ``directory`` is in; None where it says nothing."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=directory,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return done.stdout.decode() if done.returncode == 0 else None
    except (OSError, UnicodeDecodeError):
        return None


def _strict(text: str | None, file: Path) -> Lock | None:
    try:
        return loads(text, str(file)) if text is not None else None
    except UsageError:
        return None


def _from_text(text: str, file: Path) -> Sides:
    sides = split(text)
    return Sides(_lenient(sides[0], file), _lenient(sides[1], file), None, exact=False)


def _lenient(text: str, file: Path) -> Lock | None:
    """A side of which only the digest of the inputs may be wrong: lines of it were merged, that one cannot be."""
    try:
        lock = validate(Lock, parse_toml(text, str(file)), str(file))
    except (UsageError, InvalidFileError):
        return None
    inputs = lock.manifest.inputs
    lock = lock.model_copy(update={"manifest": ManifestRecord(digest=inputs_digest(inputs), inputs=inputs)})
    return None if any(problems(lock)) else canonical(lock)


def split(text: str) -> tuple[str, str]:
    """The two sides of a text with conflict markers, whichever of git's styles they are in."""
    ours: list[str] = []
    theirs: list[str] = []
    inside: list[list[str]] = [ours, theirs]
    for line in text.splitlines(keepends=True):
        mark = line.rstrip("\r\n")
        if mark == "<<<<<<<" or mark.startswith("<<<<<<< "):
            inside = [ours]
        elif mark == "|||||||" or mark.startswith("||||||| "):
            inside = []
        elif mark == "=======":
            inside = [theirs]
        elif mark == ">>>>>>>" or mark.startswith(">>>>>>> "):
            inside = [ours, theirs]
        else:
            for side in inside:
                side.append(line)
    return "".join(ours), "".join(theirs)
