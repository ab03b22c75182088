"""Which packages are needed: those that are asked for and what they depend on, or a reason why there are none.

Debian Policy 7 and 3.8: Depends and Pre-Depends, no Recommends.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockbuild.errors import ResolveError
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.version import version_key

if TYPE_CHECKING:
    from lockbuild.resolve.debian.universe import Need, Universe


def closure(index: PackageIndex, requested: Sequence[str], architecture: str, *, on: str) -> list[Package]:
    """The packages to install, by name: Essential ones, ``requested`` (``name`` or ``name=version``), and
    what they need. ResolveError, which explains, where there is no such set."""
    from lockbuild.resolve.debian.universe import Need, Universe

    universe = Universe(index, architecture)
    roots = [
        Need(package.name, frozenset(index.packages(package.name)), package.name)
        for package in index.essential()
    ]
    roots += [asked(universe, wanted, on=on) for wanted in sorted(set(requested))]
    return choose(universe, roots, on=on)


def choose(universe: Universe, roots: Sequence[Need], *, on: str) -> list[Package]:
    """The packages that meet ``roots`` and what those need, by name; ResolveError, which explains, where none do."""
    from lockbuild.resolve.debian.explain import explain_conflict, explain_missing, hopeless
    from lockbuild.resolve.debian.solver import UnsolvableError, solve

    try:
        return solve(universe, roots)
    except UnsolvableError:
        pass
    # Without what cannot be installed anyway the search is small, so it can afford to be thorough.
    lost = hopeless(universe, roots)
    for needed in roots:
        if needed.allowed <= lost.keys():
            raise ResolveError(
                f"{needed.text} cannot be installed: {explain_missing(universe, needed, lost)}", on=on
            )
    universe = universe.reduced(frozenset(lost))
    try:
        return solve(universe, roots, thorough=True)
    except UnsolvableError as failure:
        if not failure.causes:
            raise ResolveError(
                "no set of packages was found that fits together, and the search was given up",
                on=on,
                hint="ask for fewer packages, or pin some of those that conflict (name=version)",
            ) from None
        reason = explain_conflict(universe, roots, failure.causes)
        raise ResolveError(f"the packages cannot be installed together: {reason}", on=on) from None


def asked(universe: Universe, wanted: str, *, on: str) -> Need:
    """The requirement of a package that is asked for as ``name`` or ``name=version``."""
    from lockbuild.resolve.debian.universe import Need

    name, pinned, version = wanted.partition("=")
    packages = universe.packages(name)
    if not packages:
        raise _unknown(universe.index, name, on)
    if not pinned:
        return Need(name, frozenset(packages), wanted)
    allowed = frozenset(
        package for package in packages if version_key(package.version) == version_key(version)
    )
    if not allowed:
        there = " and ".join(package.version for package in packages)
        raise ResolveError(
            f"the suite has {name} {there}, not {version}",
            on=on,
            hint=f"ask for {name}={packages[0].version}, or set snapshot to a time when it had {version}",
        )
    return Need(name, allowed, wanted)


def _unknown(index: PackageIndex, name: str, on: str) -> ResolveError:
    providers = dict.fromkeys(package.name for package, _ in index.providers(name))
    if providers:
        return ResolveError(
            f"{name} is a virtual package",
            on=on,
            hint=f"ask for one that provides it: {', '.join(providers)}",
        )
    close = difflib.get_close_matches(name, sorted(index.names), n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(close)}?" if close else None
    return ResolveError(f"the suite has no package {name!r}", on=on, hint=hint)
