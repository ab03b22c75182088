"""What satisfies and what contradicts what: Debian Policy 7 and the multiarch specification.

An environment is one architecture, unpacked at once. So Pre-Depends means Depends, Breaks means
Conflicts, and an architecture qualifier is met by the environment's own packages or not at all:
``name:any`` by packages that are ``Multi-Arch: allowed``, ``:native`` and the architecture's name by every
package, another architecture's name by none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.relations import Clause, Relation, describe
from lockbuild.resolve.debian.version import version_key


@dataclass(frozen=True, slots=True)
class Need:
    """The package ``name`` must be there, in one of the ``allowed`` versions. ``text`` says it as asked."""

    name: str
    allowed: frozenset[Package]
    text: str


@dataclass(frozen=True, slots=True)
class Avoid:
    """None of the ``excluded`` versions of ``name`` may be there. ``text`` says it as asked."""

    name: str
    excluded: frozenset[Package]
    text: str


@dataclass(frozen=True, slots=True)
class Choose:
    """One of several packages must be there, of which none is called ``other_than``."""

    clause: Clause
    other_than: str

    @property
    def text(self) -> str:
        """The clause as asked."""
        return describe(self.clause)


Requirement = Need | Avoid | Choose


class Universe:
    """The packages of an index, with the relations between them resolved to packages.

    Packages in ``without`` are taken not to exist. ``given`` has, by name, the versions of packages that are there
    already: they are preferred to all others, and where the index has that version, nothing is required of it. With
    ``keeps_given`` they stay, so that what contradicts them is required not to be there.
    """

    def __init__(
        self,
        index: PackageIndex,
        architecture: str,
        without: frozenset[Package] = frozenset(),
        given: Mapping[str, str] | None = None,
        *,
        keeps_given: bool = False,
    ) -> None:
        self.index = index
        self.architecture = architecture
        self._without = without
        self._given = given or {}
        self._keeps_given = keeps_given
        self._native = (None, "native", architecture)
        self._satisfiers: dict[Clause, tuple[Package, ...]] = {}
        self._requirements: dict[Package, tuple[Requirement, ...]] = {}

    def reduced(self, without: frozenset[Package]) -> Universe:
        """The same universe lacking also the packages in ``without``."""
        return Universe(
            self.index,
            self.architecture,
            self._without | without,
            self._given,
            keeps_given=self._keeps_given,
        )

    def is_given(self, package: Package) -> bool:
        """Whether ``package`` is there already, in this version."""
        version = self._given.get(package.name)
        return version is not None and version_key(version) == version_key(package.version)

    def given_version(self, name: str) -> str | None:
        """The version of ``name`` that is there already; None where it is not."""
        return self._given.get(name)

    def packages(self, name: str) -> tuple[Package, ...]:
        """The versions of ``name``, newest first."""
        found = self.index.packages(name)
        return tuple(package for package in found if package not in self._without) if self._without else found

    def satisfiers(self, clause: Clause) -> tuple[Package, ...]:
        """The packages that satisfy ``clause``, the preferred one first.

        Earlier alternatives go before later ones, in each the package of that name before those that provide
        it, newer versions before older ones.
        """
        found = self._satisfiers.get(clause)
        if found is None:
            ordered = [package for relation in clause for package in self._satisfying(relation)]
            found = tuple(package for package in dict.fromkeys(ordered) if package not in self._without)
            if self._given:
                found = tuple(sorted(found, key=lambda package: package.name not in self._given))
            self._satisfiers[clause] = found
        return found

    def serving(self, requirement: Need | Choose) -> tuple[Package, ...]:
        """The packages that serve ``requirement``, the preferred one first."""
        if isinstance(requirement, Need):
            return tuple(
                package for package in self.packages(requirement.name) if package in requirement.allowed
            )
        return tuple(
            package
            for package in self.satisfiers(requirement.clause)
            if package.name != requirement.other_than
        )

    def requirements(self, package: Package) -> tuple[Requirement, ...]:
        """What must hold where ``package`` is there, in a stable order. What it serves itself is left out."""
        found = self._requirements.get(package)
        if found is None and self.is_given(package):
            found = tuple(self._avoided(package)) if self._keeps_given else ()
            self._requirements[package] = found
        elif found is None:
            needed = (
                self._requirement(clause, package.name)
                for clause in package.depends
                if package not in self.satisfiers(clause)
            )
            found = (*dict.fromkeys(needed), *self._avoided(package))
            self._requirements[package] = found
        return found

    def _requirement(self, clause: Clause, owner: str) -> Requirement:
        """``clause`` as a requirement: of one package where only versions of one can satisfy it.

        Another version of the ``owner`` cannot: one version of a package is there at a time.
        """
        choose = Choose(clause, owner)
        options = self.serving(choose)
        names = {package.name for package in options}
        return choose if len(names) != 1 else Need(names.pop(), frozenset(options), choose.text)

    def _satisfying(self, relation: Relation) -> Iterable[Package]:
        qualifier = relation.qualifier
        if qualifier not in self._native and qualifier != "any":
            return
        for package in self.index.packages(relation.name):
            if relation.admits(package.version) and (qualifier != "any" or package.multi_arch == "allowed"):
                yield package
        for package, provided in self.index.providers(relation.name):
            if qualifier == "any":
                reachable = provided.qualifier == "any" or (
                    provided.qualifier is None and package.multi_arch == "allowed"
                )
            else:
                reachable = provided.qualifier in self._native
            if reachable and relation.admits(provided.version):
                yield package

    def _avoided(self, package: Package) -> Iterable[Avoid]:
        excluded: dict[str, dict[Package, str]] = {}
        for relation in package.conflicts:
            if relation.qualifier not in self._native and relation.qualifier != "any":
                continue
            contradicting = [
                *(other for other in self.index.packages(relation.name) if relation.admits(other.version)),
                *(
                    other
                    for other, provided in self.index.providers(relation.name)
                    if relation.admits(provided.version)
                ),
            ]
            for other in contradicting:
                # A package may provide and conflict with one virtual name: "no other of this kind". And what is
                # there together already is not asked whether it may be.
                both_given = self.is_given(package) and self.is_given(other)
                if other.name != package.name and not both_given:
                    excluded.setdefault(other.name, {}).setdefault(other, str(relation))
        for name, packages in sorted(excluded.items()):
            yield Avoid(name, frozenset(packages), " and ".join(dict.fromkeys(packages.values())))
