"""The closure of a requirement for one environment, solved with resolvelib.

Dependency specifiers (PEP 508) are evaluated for the environment, never for the interpreter that runs
lockbuild. A project with extras is an identifier of its own that depends on the same version without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockbuild.errors import LockbuildError, ResolveError
from lockbuild.resolve.pypi.metadata import WheelMetadata
from lockbuild.resolve.pypi.wheels import Wheel, WheelFinder, is_pinned
from lockbuild.transport.index import IndexFile

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

_MAXIMUM_ROUNDS = 20_000


@dataclass(frozen=True, slots=True)
class Identifier:
    """A normalised project name, with the extras that are wanted of it."""

    name: str
    extras: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name}[{','.join(sorted(self.extras))}]" if self.extras else self.name


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement, its marker already found true."""

    identifier: Identifier
    specifiers: SpecifierSet

    def __str__(self) -> str:
        return f"{self.identifier}{self.specifiers}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wheel for an identifier."""

    identifier: Identifier
    wheel: Wheel

    def __str__(self) -> str:
        return f"{self.identifier} {self.wheel.version}"


def closure(
    requirement: Requirement,
    finder: WheelFinder,
    markers: Mapping[str, str],
    metadata: Callable[[IndexFile], WheelMetadata],
    prefetch: Callable[[str], None],
) -> dict[str, Wheel]:
    """Project name -> wheel, for ``requirement`` and everything it needs.

    ``metadata`` reads a wheel's; ``prefetch`` is told of projects that will be asked for. ResolveError
    where there is no solution, OfflineError where it needs what only the network has.
    """
    from resolvelib import BaseReporter, ResolutionImpossible, ResolutionTooDeep, Resolver

    provider = _provider()(finder, dict(markers), metadata, prefetch)
    root = _need(requirement)
    if requirement.marker is not None and not requirement.marker.evaluate(dict(markers)):
        raise ResolveError(
            f"its marker is not true in the environment: {requirement.marker}", on=str(requirement)
        )
    try:
        result = Resolver(provider, BaseReporter()).resolve([root], max_rounds=_MAXIMUM_ROUNDS)
    except ResolutionImpossible as error:
        raise _impossible(error.causes, finder, root) from None
    except ResolutionTooDeep:
        raise ResolveError(
            "no solution was found in reasonable time", on=str(root), hint="narrow the requirement"
        ) from None
    return {
        identifier.name: candidate.wheel
        for identifier, candidate in sorted(result.mapping.items(), key=lambda item: str(item[0]))
        if not identifier.extras
    }


def _need(requirement: Requirement) -> Need:
    from packaging.utils import canonicalize_name

    extras = frozenset(canonicalize_name(extra) for extra in requirement.extras)
    return Need(Identifier(canonicalize_name(requirement.name), extras), requirement.specifier)


def _provider() -> Any:
    """resolvelib's provider; made here so that the library is imported only to resolve."""
    from packaging.specifiers import SpecifierSet
    from resolvelib import AbstractProvider

    class WheelProvider(AbstractProvider):  # type: ignore[type-arg]
        def __init__(
            self,
            finder: WheelFinder,
            markers: dict[str, str],
            metadata: Callable[[IndexFile], WheelMetadata],
            prefetch: Callable[[str], None],
        ) -> None:
            self._finder = finder
            self._markers = markers
            self._metadata = metadata
            self._prefetch = prefetch

        def identify(self, requirement_or_candidate: Need | Candidate) -> Identifier:
            return requirement_or_candidate.identifier

        def get_preference(
            self,
            identifier: Identifier,
            resolutions: Mapping[Identifier, Candidate],
            candidates: Mapping[Identifier, Iterator[Candidate]],
            information: Mapping[Identifier, Iterator[Any]],
            backtrack_causes: Sequence[Any],
        ) -> tuple[bool, bool, bool, str]:
            """What conflicted first, then what is pinned or bounded; the name makes it deterministic."""
            needs = [item.requirement for item in information[identifier]]
            causing = any(
                identifier == cause.requirement.identifier
                or (cause.parent is not None and identifier == cause.parent.identifier)
                for cause in backtrack_causes
            )
            pinned = any(is_pinned(need.specifiers) for need in needs)
            bounded = any(len(need.specifiers) for need in needs)
            return (not causing, not pinned, not bounded, str(identifier))

        def find_matches(
            self,
            identifier: Identifier,
            requirements: Mapping[Identifier, Iterator[Need]],
            incompatibilities: Mapping[Identifier, Iterator[Candidate]],
        ) -> list[Candidate]:
            specifiers = SpecifierSet()
            for need in requirements[identifier]:
                specifiers &= need.specifiers
            bad = {candidate.wheel for candidate in incompatibilities[identifier]}
            return [
                Candidate(identifier, wheel)
                for wheel in self._finder.matching(identifier.name, specifiers)
                if wheel not in bad
            ]

        def is_satisfied_by(self, requirement: Need, candidate: Candidate) -> bool:
            return requirement.specifiers.contains(candidate.wheel.version, prereleases=True)

        def get_dependencies(self, candidate: Candidate) -> list[Need]:
            metadata = self._metadata(candidate.wheel.file)
            identifier = candidate.identifier
            unknown = identifier.extras - metadata.extras
            if unknown:
                known = ", ".join(sorted(metadata.extras)) or "none"
                raise ResolveError(
                    f"has no extra {', '.join(sorted(unknown))} (it has: {known})", on=str(candidate)
                )
            needs = []
            for requirement in metadata.requires:
                if not self._applies(requirement, identifier.extras):
                    continue
                if requirement.url:
                    raise ResolveError(
                        f"depends on {requirement.name} at a URL; only indexes are supported",
                        on=str(candidate),
                    )
                needs.append(_need(requirement))
            if identifier.extras:
                same = SpecifierSet(f"==={candidate.wheel.version}")
                needs.append(Need(Identifier(identifier.name), same))
            for need in needs:
                self._prefetch(need.identifier.name)
            return needs

        def _applies(self, requirement: Requirement, extras: Iterable[str]) -> bool:
            marker = requirement.marker
            return marker is None or any(
                marker.evaluate({**self._markers, "extra": extra}) for extra in ("", *sorted(extras))
            )

    return WheelProvider


def _impossible(causes: Collection[Any], finder: WheelFinder, root: Need) -> LockbuildError:
    """In one sentence: nothing of that project fits, or who wants what of it."""
    from packaging.specifiers import SpecifierSet

    by_name: dict[str, list[Any]] = {}
    for cause in causes:
        by_name.setdefault(cause.requirement.identifier.name, []).append(cause)
    for name, asking in sorted(by_name.items()):
        for cause in asking:
            specifiers = cause.requirement.specifiers
            if not finder.matching(name, specifiers):
                wanted = f"{cause.requirement}" + (f" (for {cause.parent})" if cause.parent else "")
                return finder.nothing_matches(name, specifiers, wanted)
        together = SpecifierSet()
        for cause in asking:
            together &= cause.requirement.specifiers
        if not finder.matching(name, together):
            unreadable = finder.unreadable(name, together, f"{name}{together}")
            if unreadable is not None:
                return unreadable
            break
    lines = sorted({f"{cause.parent or 'the manifest'} needs {cause.requirement}" for cause in causes})
    return ResolveError(
        "there is no set of versions that fits together: " + "; ".join(lines),
        on=str(root),
        hint="narrow or widen the requirement so that these can agree",
    )
