"""Choose the packages: the requested ones, what they depend on, and nothing that conflicts.

resolvelib searches. Its identifiers are package names and clauses that several packages can satisfy:
choosing for a clause pins a `Choice`, which requires the chosen package. A conflict requires of a
package name that it is absent or another version; `Absent` is then what the name is pinned to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from resolvelib import AbstractProvider, BaseReporter
from resolvelib.resolvers import Resolution, ResolutionImpossible, ResolutionTooDeep

from lockbuild.resolve.debian_index import Package
from lockbuild.resolve.debian_relations import Clause
from lockbuild.resolve.debian_universe import Avoid, Choose, Need, Requirement, Universe

if TYPE_CHECKING:
    from resolvelib.structs import RequirementInformation, State

_ROUNDS = 20_000
"""Rounds of the search; the real closure of 200 packages takes 600."""


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    """The package ``name`` is not there."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """``package`` is what satisfies ``clause``."""

    clause: Clause
    package: Package


Key = str | Clause
Candidate = Package | Absent | Choice


class UnsolvableError(Exception):
    """There is no solution (``exhausted``), or none was found in time. Never leaves `lockbuild.resolve`."""

    def __init__(self, causes: Sequence[tuple[Requirement, Candidate | None]], *, exhausted: bool) -> None:
        super().__init__("no solution")
        self.causes = tuple(causes)
        self.exhausted = exhausted


def solve(universe: Universe, roots: Sequence[Need], *, thorough: bool = False) -> list[Package]:
    """The packages that satisfy ``roots``, by name. `UnsolvableError` where none do.

    The result depends on the universe and the roots alone. resolvelib jumps back over choices that seem
    unrelated to a conflict, which is fast and can miss a solution; with ``thorough`` it goes back over each.
    """
    search = _Search(universe)
    # Not `Resolver`: it goes on to make a graph by recursion, which the cycles of a distribution exhaust.
    resolution: Resolution[Requirement, Candidate, Key] = Resolution(search, _Observer(search, thorough))
    try:
        mapping = resolution.resolve(roots, max_rounds=_ROUNDS).mapping
    except ResolutionImpossible as error:
        causes = [(cause.requirement, cause.parent) for cause in error.causes]
        raise UnsolvableError(causes, exhausted=thorough) from None
    except ResolutionTooDeep:
        raise UnsolvableError([], exhausted=False) from None
    return _reachable(universe, roots, mapping)


def _reachable(universe: Universe, roots: Iterable[Need], mapping: Mapping[Key, Candidate]) -> list[Package]:
    """What the pins make of the roots: pins that were left over from abandoned choices fall away."""
    found: dict[str, Package] = {}
    open_: list[Requirement] = list(roots)
    while open_:
        requirement = open_.pop()
        if isinstance(requirement, Avoid):
            continue
        pin = mapping[requirement.name if isinstance(requirement, Need) else requirement.clause]
        package = pin.package if isinstance(pin, Choice) else pin
        assert isinstance(package, Package)
        if package.name not in found:
            found[package.name] = package
            open_ += universe.requirements(package)
    return [found[name] for name in sorted(found)]


class _Ordered(Sequence[Choice]):
    """Choices, those for packages that are pinned already before the others whenever it is iterated."""

    def __init__(self, choices: tuple[Choice, ...], search: _Search) -> None:
        self._choices = choices
        self._search = search

    def __iter__(self) -> Iterator[Choice]:
        pins = self._search.pins
        return iter(
            sorted(self._choices, key=lambda choice: pins.get(choice.package.name) is not choice.package)
        )

    def __len__(self) -> int:
        return len(self._choices)

    @overload
    def __getitem__(self, position: int) -> Choice: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Choice]: ...
    def __getitem__(self, position: int | slice) -> Choice | Sequence[Choice]:
        return self._choices[position]


class _Search(AbstractProvider[Requirement, Candidate, Key]):
    """The universe as resolvelib asks for it."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._absent: dict[str, Absent] = {}
        self.pins: Mapping[Key, Candidate] = {}
        self.entangled: tuple[Requirement, ...] = ()

    def identify(self, requirement_or_candidate: Requirement | Candidate) -> Key:
        if isinstance(requirement_or_candidate, Choose | Choice):
            return requirement_or_candidate.clause
        return requirement_or_candidate.name

    def get_preference(
        self,
        identifier: Key,
        resolutions: Mapping[Key, Candidate],
        candidates: Mapping[Key, Iterator[Candidate]],
        information: Mapping[Key, Iterator[Any]],
        backtrack_causes: Sequence[Any],
    ) -> tuple[int, int, str]:
        """Packages that must be there first, then choices, first those that are made already, absences last."""
        if isinstance(identifier, str):
            needed = any(isinstance(known.requirement, Need) for known in information[identifier])
            return (0 if needed else 3), 0, identifier
        satisfiers = self._universe.satisfiers(identifier)
        made = any(resolutions.get(package.name) is package for package in satisfiers)
        return (1 if made else 2), len(satisfiers), Choose(identifier).text

    def find_matches(
        self,
        identifier: Key,
        requirements: Mapping[Key, Iterator[Requirement]],
        incompatibilities: Mapping[Key, Iterator[Candidate]],
    ) -> Sequence[Candidate]:
        refused = set(incompatibilities[identifier])
        if not isinstance(identifier, str):
            choices = (Choice(identifier, package) for package in self._universe.satisfiers(identifier))
            return _Ordered(tuple(choice for choice in choices if choice not in refused), self)
        wanted = list(requirements[identifier])
        if any(isinstance(requirement, Need) for requirement in wanted):
            return [
                package
                for package in self._universe.packages(identifier)
                if package not in refused
                and all(self.is_satisfied_by(requirement, package) for requirement in wanted)
            ]
        absent = self._absent.setdefault(identifier, Absent(identifier))
        return [] if absent in refused else [absent]

    def is_satisfied_by(self, requirement: Requirement, candidate: Candidate) -> bool:
        if isinstance(requirement, Need):
            return candidate in requirement.allowed
        if isinstance(requirement, Avoid):
            return candidate not in requirement.excluded
        return True

    def get_dependencies(self, candidate: Candidate) -> Iterable[Requirement]:
        if isinstance(candidate, Absent):
            return self.entangled
        if isinstance(candidate, Choice):
            package = candidate.package
            need = Need(package.name, frozenset((package,)), Choose(candidate.clause).text)
            return (need, *self.entangled)
        return (*self._universe.requirements(candidate), *self.entangled)


class _Observer(BaseReporter[Requirement, Candidate, Key]):
    """Keeps the search told of the pins; thorough, it makes each pin a suspect of every conflict.

    resolvelib asks for the dependencies of a pin when it looks how far to jump back, and stops at the
    first pin that shares one with the conflict.
    """

    def __init__(self, search: _Search, thorough: bool) -> None:
        self._search = search
        self._thorough = thorough

    def ending_round(self, index: int, state: State[Requirement, Candidate, Key]) -> None:
        self._search.pins = state.mapping
        self._search.entangled = ()

    def resolving_conflicts(self, causes: Iterable[RequirementInformation[Requirement, Candidate]]) -> None:
        if self._thorough:
            self._search.entangled = tuple(cause.requirement for cause in causes)[:1]
