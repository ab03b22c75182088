"""Say in a sentence or two why packages cannot be installed.

Two kinds of reason: something on the way needs what the suite does not have, found by striking out
packages until nothing changes; or two packages exclude one another, found in what the search ran into.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

from lockbuild.resolve.debian.index import Package
from lockbuild.resolve.debian.relations import Clause
from lockbuild.resolve.debian.solver import Absent, Candidate, Choice
from lockbuild.resolve.debian.universe import Avoid, Choose, Need, Requirement, Universe

_LONGEST_CHAIN = 6


def hopeless(universe: Universe, roots: Iterable[Need]) -> dict[Package, Need | Choose]:
    """The packages that no choice can make installable, each with the requirement that it fails on.

    A package comes after all that could have met its requirement. Only what the roots can reach is looked at;
    conflicts are not.
    """
    # Each once: an Essential package may be asked for as well, and what it needs must not be counted twice.
    open_ = list(dict.fromkeys(package for root in roots for package in universe.serving(root)))
    seen = set(open_)
    waiting: dict[Package, list[tuple[Package, Need | Choose]]] = {}
    failed: deque[tuple[Package, Need | Choose]] = deque()
    left: dict[tuple[Package, Need | Choose], int] = {}
    while open_:
        package = open_.pop()
        for requirement in universe.requirements(package):
            if isinstance(requirement, Avoid):
                continue
            options = universe.serving(requirement)
            left[package, requirement] = len(options)
            if not options:
                failed.append((package, requirement))
            for other in options:
                waiting.setdefault(other, []).append((package, requirement))
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
    found: dict[Package, Need | Choose] = {}
    while failed:
        package, requirement = failed.popleft()
        if package in found:
            continue
        found[package] = requirement
        for dependent in waiting.get(package, ()):
            left[dependent] -= 1
            if left[dependent] == 0:
                failed.append(dependent)
    return found


def explain_missing(universe: Universe, root: Need, lost: dict[Package, Need | Choose]) -> str:
    """Why ``root``, whose every version is `hopeless`, cannot be installed: the chain down to what is missing."""
    options = universe.serving(root)
    steps: list[str] = []
    while True:
        package = options[0]
        requirement = lost[package]
        steps.append(f"{package} needs {requirement.text}")
        options = universe.serving(requirement)
        if not options:
            assert isinstance(requirement, Choose)  # a Need names packages that are there
            return f"{_shortened(steps)}, but {_what_there_is(universe, requirement.clause)}"


def explain_conflict(
    universe: Universe, roots: Sequence[Need], causes: Sequence[tuple[Requirement, Candidate | None]]
) -> str:
    """Why the search failed, from the requirements that it could not meet together."""
    parents = _shortest_ways(universe, roots)
    by_name: dict[str, list[tuple[Requirement, Candidate | None]]] = {}
    for requirement, parent in causes:
        if not isinstance(requirement, Choose):
            by_name.setdefault(requirement.name, []).append((requirement, parent))
    for name in sorted(by_name):
        facts = by_name[name]
        for (one, parent), (other, needing) in itertools.permutations(facts, 2):
            if isinstance(other, Need) and _exclude(universe, name, one, other):
                said = f"conflicts with {_avoided(one)}" if isinstance(one, Avoid) else f"needs {one.text}"
                return (
                    f"{_owner(parent)} {said}{_way(_package(parent), parents)}, "
                    f"and {_owner(needing)} needs {other.text}{_way(_package(needing), parents)}"
                )
    texts = dict.fromkeys(f"{_owner(parent)} needs {requirement.text}" for requirement, parent in causes)
    return "these contradict one another: " + "; ".join(list(texts)[:_LONGEST_CHAIN])


def _exclude(universe: Universe, name: str, one: Requirement, other: Need) -> bool:
    """Whether no version of ``name`` meets both."""
    for package in universe.packages(name):
        if package not in other.allowed:
            continue
        if isinstance(one, Need) and package in one.allowed:
            return False
        if isinstance(one, Avoid) and package not in one.excluded:
            return False
    return True


def _avoided(requirement: Avoid) -> str:
    if requirement.text.partition(" ")[0].partition(":")[0] == requirement.name:
        return requirement.text
    return f"{requirement.text}, which {requirement.name} provides"


def _what_there_is(universe: Universe, clause: Clause) -> str:
    for relation in clause:
        given = universe.given_version(relation.name)
        if given is not None and not relation.admits(given):
            return f"the base has {relation.name} {given}"
        packages = universe.index.packages(relation.name)
        if packages:
            versions = " and ".join(package.version for package in packages)
            if not relation.qualifier or not any(relation.admits(package.version) for package in packages):
                return f"the suite has {relation.name} {versions}"
            if relation.qualifier == "any":
                return f"{relation.name} {versions} is not Multi-Arch: allowed"
            return f"packages for {relation.qualifier} are not installed"
        provided = dict.fromkeys(
            f"{relation.name} {provides.version or 'without a version'} (from {package.name})"
            for package, provides in universe.index.providers(relation.name)
        )
        if provided:
            return f"the suite has {' and '.join(list(provided)[:3])}"
    return "the suite has no such package"


def _shortest_ways(universe: Universe, roots: Sequence[Need]) -> dict[Package, Package | None]:
    """For each package that the roots can reach, what needs it on the shortest way there (None for roots)."""
    parents: dict[Package, Package | None] = {
        package: None for root in roots for package in universe.serving(root)
    }
    open_ = deque(parents)
    while open_:
        package = open_.popleft()
        for requirement in universe.requirements(package):
            if isinstance(requirement, Avoid):
                continue
            for other in universe.serving(requirement):
                if other not in parents:
                    parents[other] = package
                    open_.append(other)
    return parents


def _package(parent: Candidate | None) -> Package | None:
    if isinstance(parent, Choice):
        return parent.package
    return None if isinstance(parent, Absent) else parent


def _owner(parent: Candidate | None) -> str:
    if parent is None:
        return "the request"
    if isinstance(parent, Choice):
        return "another package"
    return str(parent)


def _way(package: Package | None, parents: dict[Package, Package | None]) -> str:
    if package is None:
        return ""
    names = []
    above = parents.get(package)
    while above is not None:
        names.append(above.name)
        above = parents.get(above)
    if len(names) > _LONGEST_CHAIN:
        names = [*names[:2], "…", *names[-2:]]
    return f" (needed by {', by '.join(names)})" if names else ""


def _shortened(steps: list[str]) -> str:
    if len(steps) > _LONGEST_CHAIN:
        steps = [*steps[:2], "…", *steps[-3:]]
    return ", ".join(steps)
