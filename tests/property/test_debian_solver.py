"""The solver finds a closure exactly where trying every set of packages finds one."""

from __future__ import annotations

import itertools
import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lockbuild.errors import ResolveError
from lockbuild.resolve.debian.closure import closure
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.relations import Relation
from lockbuild.resolve.debian.tool import missing

NAMES = ["pa", "pb", "pc", "pd", "pe", "pf"]
VIRTUAL = ["va", "vb"]
BOUNDS = ["", "", " (= 1)", " (>= 2)", " (<< 2)"]


@st.composite
def relations(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES + VIRTUAL))
    qualifier = draw(st.sampled_from(["", "", "", "", ":any", ":native", ":amd64", ":i386"]))
    return name + qualifier + draw(st.sampled_from(BOUNDS))


@st.composite
def stanzas(draw: st.DrawFn) -> list[str]:
    found = []
    for name in NAMES:
        for version in draw(st.sampled_from([["1"], ["2"], ["1", "2"], []])):
            lines = [f"Package: {name}", f"Version: {version}", "Architecture: amd64"]
            clauses = draw(
                st.lists(st.lists(relations(), min_size=1, max_size=3).map(" | ".join), max_size=3)
            )
            if clauses:
                lines.append("Depends: " + ", ".join(clauses))
            provides = draw(
                st.lists(st.sampled_from(["va", "vb", "va (= 1)", "vb (= 2)", "pa", "va:any"]), max_size=2)
            )
            if provides:
                lines.append("Provides: " + ", ".join(provides))
            conflicts = draw(st.lists(relations(), max_size=2))
            if conflicts:
                lines.append(draw(st.sampled_from(["Conflicts: ", "Breaks: "])) + ", ".join(conflicts))
            lines.append("Multi-Arch: " + draw(st.sampled_from(["no", "allowed", "foreign"])))
            if draw(st.integers(0, 11)) == 0:
                lines.append("Essential: yes")
            lines += [f"Filename: pool/{name}_{version}.deb", "Size: 1", "SHA256: " + "0" * 64]
            found.append("\n".join(lines) + "\n")
    return found


def _meets(relation: Relation, package: Package) -> bool:
    """By the words of Policy, apart from the code under test."""
    if relation.qualifier == "i386":
        return False
    wants_any = relation.qualifier == "any"
    if (
        package.name == relation.name
        and relation.admits(package.version)
        and (not wants_any or package.multi_arch == "allowed")
    ):
        return True
    for provided in package.provides:
        if provided.name != relation.name or not relation.admits(provided.version):
            continue
        if wants_any and (
            provided.qualifier == "any" or (provided.qualifier is None and package.multi_arch == "allowed")
        ):
            return True
        if not wants_any and provided.qualifier is None:
            return True
    return False


def _contradicts(relation: Relation, package: Package) -> bool:
    if relation.qualifier == "i386":
        return False
    if package.name == relation.name and relation.admits(package.version):
        return True
    return any(
        provided.name == relation.name and relation.admits(provided.version) for provided in package.provides
    )


def _valid(chosen: list[Package]) -> bool:
    for package in chosen:
        for clause in package.depends:
            if not any(_meets(relation, other) for relation in clause for other in chosen):
                return False
        for relation in package.conflicts:
            if any(_contradicts(relation, other) for other in chosen if other.name != package.name):
                return False
    return True


def _solvable(index: PackageIndex, roots: list[str]) -> bool:
    options: list[list[Package | None]] = []
    for name in NAMES:
        versions: list[Package | None] = list(index.packages(name))
        options.append(versions if name in roots else [None, *versions])
    return any(
        _valid([package for package in choice if package is not None])
        for choice in itertools.product(*options)
    )


def _needed(chosen: list[Package], roots: list[str]) -> set[str]:
    by_name = {package.name: package for package in chosen}
    reached = set(roots)
    open_ = list(roots)
    while open_:
        for clause in by_name[open_.pop()].depends:
            for other in chosen:
                if other.name not in reached and any(_meets(relation, other) for relation in clause):
                    reached.add(other.name)
                    open_.append(other.name)
    return reached


def _index(parts: list[str]) -> PackageIndex:
    return PackageIndex(["\n".join(parts).encode()], "amd64", on="index")


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stanzas(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), st.randoms())
def test_agrees_with_trying_everything(parts: list[str], wanted: list[str], order: random.Random) -> None:
    index = _index(parts)
    wanted = [name for name in wanted if index.packages(name)]
    roots = sorted({*wanted, *(package.name for package in index.essential())})
    chosen = _closure(index, wanted)
    if isinstance(chosen, ResolveError):
        assert not _solvable(index, roots), chosen
        assert len(chosen.what) > 20
    else:
        assert _valid(chosen)
        assert set(roots) <= {package.name for package in chosen}
        assert {package.name for package in chosen} == _needed(chosen, roots)

    order.shuffle(parts)
    order.shuffle(wanted)
    again = _closure(_index(parts), wanted)
    assert _text(again) == _text(chosen)


def _closure(index: PackageIndex, wanted: list[str]) -> list[Package] | ResolveError:
    try:
        return closure(index, wanted, "amd64", on="base")
    except ResolveError as error:
        return error


def _text(result: list[Package] | ResolveError) -> list[str]:
    return [str(result)] if isinstance(result, ResolveError) else [str(package) for package in result]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stanzas(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
def test_a_tool_has_what_it_needs_together_with_the_base(parts: list[str], wanted: list[str]) -> None:
    index = _index(parts)
    wanted = [name for name in wanted if index.packages(name)]
    base = _closure(index, [])
    assume(wanted and not isinstance(base, ResolveError))
    assert not isinstance(base, ResolveError)
    there = {package.name: package.version for package in base}
    try:
        tool = missing(index, wanted, there, "amd64", on="tools.x")
    except ResolveError:
        return  # the base has it all, or has what does not fit
    assert not {package.name for package in tool} & there.keys()
    assert {*wanted} <= {package.name for package in (*tool, *base)}
    for package in tool:
        for clause in package.depends:
            assert any(_meets(relation, other) for relation in clause for other in (*tool, *base))
