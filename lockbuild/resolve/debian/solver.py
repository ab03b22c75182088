"""Choose the packages: the requested ones, what they depend on, and nothing that conflicts.

resolvelib searches. Its identifiers are package names and clauses that several packages can satisfy:
choosing for a clause pins a `Choice`, which requires the chosen package. A conflict requires of a
package name that it is absent or another version; `Absent` is then what the name is pinned to.

A pin is changed by going back only, never by a later requirement: resolvelib forgets what a pin
required when it falls out of favour, and does not learn it again when it comes back. So names that
may be absent are pinned last, when nothing can require them any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from resolvelib import AbstractProvider, BaseReporter
from resolvelib.resolvers import Resolution, ResolutionImpossible, ResolutionTooDeep

from lockbuild.resolve.debian.index import Package
from lockbuild.resolve.debian.universe import Avoid, Choose, Need, Requirement, Universe

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
    """``package`` is what serves ``choose``."""

    choose: Choose
    package: Package


Key = str | Choose
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
    search.resolution = resolution
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
        pin = mapping[requirement.name if isinstance(requirement, Need) else requirement]
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
        self.resolution: Resolution[Requirement, Candidate, Key] | None = None
        self.entangled: tuple[Requirement, ...] = ()

    @property
    def pins(self) -> Mapping[Key, Candidate]:
        """What is pinned at this moment."""
        assert self.resolution is not None
        return self.resolution.state.mapping

    def identify(self, requirement_or_candidate: Requirement | Candidate) -> Key:
        match requirement_or_candidate:
            case Choose():
                return requirement_or_candidate
            case Choice(choose, _):
                return choose
            case Need() | Avoid() | Absent() | Package():
                return requirement_or_candidate.name

    def get_preference(
        self,
        identifier: Key,
        resolutions: Mapping[Key, Candidate],
        candidates: Mapping[Key, Iterator[Candidate]],
        information: Mapping[Key, Iterator[RequirementInformation[Requirement, Candidate]]],
        backtrack_causes: Sequence[RequirementInformation[Requirement, Candidate]],
    ) -> tuple[int, int, str, str]:
        """Packages that must be there first, then choices, first those that are made already, absences last."""
        if isinstance(identifier, str):
            needed = any(isinstance(known.requirement, Need) for known in information[identifier])
            return (0 if needed else 3), 0, identifier, ""
        options = self._universe.serving(identifier)
        made = any(resolutions.get(package.name) is package for package in options)
        return (1 if made else 2), len(options), identifier.text, identifier.other_than

    def find_matches(
        self,
        identifier: Key,
        requirements: Mapping[Key, Iterator[Requirement]],
        incompatibilities: Mapping[Key, Iterator[Candidate]],
    ) -> Sequence[Candidate]:
        refused = set(incompatibilities[identifier])
        if isinstance(identifier, Choose):
            choices = (Choice(identifier, package) for package in self._universe.serving(identifier))
            return _Ordered(tuple(choice for choice in choices if choice not in refused), self)
        wanted = list(requirements[identifier])
        possible: Iterable[Candidate]
        if identifier in self.pins:
            possible = [self.pins[identifier]]
        elif any(isinstance(requirement, Need) for requirement in wanted):
            possible = self._universe.packages(identifier)
        else:
            possible = [self._absent.setdefault(identifier, Absent(identifier))]
        return [
            candidate
            for candidate in possible
            if candidate not in refused
            and all(self.is_satisfied_by(requirement, candidate) for requirement in wanted)
        ]

    def is_satisfied_by(self, requirement: Requirement, candidate: Candidate) -> bool:
        match requirement:
            case Need():
                return candidate in requirement.allowed
            case Avoid():
                return candidate not in requirement.excluded
            case Choose():
                return True

    def get_dependencies(self, candidate: Candidate) -> Iterable[Requirement]:
        match candidate:
            case Absent():
                return self.entangled
            case Choice(choose, package):
                return (Need(package.name, frozenset((package,)), choose.text), *self.entangled)
            case Package():
                return (*self._universe.requirements(candidate), *self.entangled)


class _Observer(BaseReporter[Requirement, Candidate, Key]):
    """Thorough, it makes each pin a suspect of every conflict.

    resolvelib asks for the dependencies of a pin when it looks how far to jump back, and stops at the
    first pin that shares one with the conflict.
    """

    def __init__(self, search: _Search, thorough: bool) -> None:
        self._search = search
        self._thorough = thorough

    def ending_round(self, index: int, state: State[Requirement, Candidate, Key]) -> None:
        self._search.entangled = ()

    def resolving_conflicts(self, causes: Iterable[RequirementInformation[Requirement, Candidate]]) -> None:
        if self._thorough:
            self._search.entangled = tuple(cause.requirement for cause in causes)[:1]
