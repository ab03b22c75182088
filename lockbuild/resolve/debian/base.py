"""``[base.debian]``: the closure of some packages of a suite, as the sources of a root file system.

The closure is Debian's own: Essential packages, the requested ones, and what they Depend and Pre-Depend
on (Debian Policy 7 and 3.8); no Recommends. Only signed indexes are read, no package is downloaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.archive import Indexes, read_indexes
from lockbuild.resolve.debian.compression import SUFFIXES
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.release import Release
from lockbuild.resolve.debian.version import version_key

if TYPE_CHECKING:
    from lockbuild.resolve.debian.universe import Need, Universe


def resolve(
    name: str, request: DebianBase, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the root file system ``name`` for each of ``platforms``: one tree each, and its packages.

    A package that several platforms share (Architecture: all) is one source of several trees. ResolveError
    for a package that the suite does not have, or that cannot be installed; errors of `read_indexes`.
    """
    trees = [
        LockedTree(name=name, platform=platform, unpack="debian-root", mount="/") for platform in platforms
    ]
    indexes = read_indexes(
        request,
        lambda release: [path for platform in platforms for path in _paths(request, release, platform)],
        context,
    )
    sources: dict[str, Source] = {}
    for tree, platform in zip(trees, platforms, strict=True):
        index = _index(request, indexes, platform)
        for package in closure(index, request.packages, platform.debian_architecture, on=name):
            _add(sources, package, indexes.release.codename, tree.id)
    return Resolution(tuple(trees), tuple(sources[purl] for purl in sorted(sources)), (indexes.suite,))


def closure(index: PackageIndex, requested: Sequence[str], architecture: str, *, on: str) -> list[Package]:
    """The packages to install, by name: Essential ones, ``requested`` (``name`` or ``name=version``), and
    what they need. ResolveError, which explains, where there is no such set."""
    from lockbuild.resolve.debian.explain import explain_conflict, explain_missing, hopeless
    from lockbuild.resolve.debian.solver import UnsolvableError, solve
    from lockbuild.resolve.debian.universe import Need, Universe

    universe = Universe(index, architecture)
    roots = [
        Need(package.name, frozenset(index.packages(package.name)), package.name)
        for package in index.essential()
    ]
    roots += [_root(universe, wanted, on) for wanted in sorted(set(requested))]
    try:
        return solve(universe, roots)
    except UnsolvableError:
        pass
    # Without what cannot be installed anyway the search is small, so it can afford to be thorough.
    lost = hopeless(universe, roots)
    for root in roots:
        if root.allowed <= lost.keys():
            raise ResolveError(
                f"{root.text} cannot be installed: {explain_missing(universe, root, lost)}", on=on
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


def _root(universe: Universe, wanted: str, on: str) -> Need:
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


def _paths(request: DebianBase, release: Release, platform: Platform) -> list[str]:
    architecture = platform.debian_architecture
    check_components(request.components, release)
    if architecture not in release.architectures:
        raise ResolveError(
            f"{release.codename} has no packages for {architecture} "
            f"(it has {', '.join(sorted(release.architectures - {'all'}))})",
            on=request.suite,
        )
    paths = []
    for component in request.components:
        paths.append(f"{component}/binary-{architecture}/Packages")
        apart = f"{component}/binary-all/Packages"
        if release.all_apart and any(apart + suffix in release.files for suffix in SUFFIXES):
            paths.append(apart)
    return paths


def check_components(components: Sequence[str], release: Release) -> None:
    """ResolveError where the release has not all of ``components``."""
    unknown = [component for component in components if component not in release.components]
    if unknown:
        raise ResolveError(
            f"{release.codename} has no component {', '.join(unknown)} (it has {', '.join(release.components)})",
            on=release.codename,
        )


def _index(request: DebianBase, indexes: Indexes, platform: Platform) -> PackageIndex:
    texts = [indexes.texts[path] for path in _paths(request, indexes.release, platform)]
    architecture = platform.debian_architecture
    return PackageIndex(texts, architecture, on=f"the index of {indexes.release.codename} for {architecture}")


def _add(sources: dict[str, Source], package: Package, codename: str, tree: str) -> None:
    purl = deb_purl(package.name, package.version, package.architecture, codename)
    source = sources.get(purl)
    if source is None:
        sources[purl] = Source(
            purl=purl, path=package.path, size=package.size, sha256=package.sha256, trees=[tree]
        )
    elif source.sha256 != package.sha256:
        raise IntegrityError("two indexes of the suite give it different digests", on=purl)
    else:
        sources[purl] = source.model_copy(update={"trees": sorted({*source.trees, tree})})


def deb_purl(name: str, version: str, architecture: str, distribution: str) -> str:
    """The package URL of a Debian package (purl specification, type ``deb``); ``source`` is an architecture."""
    from packageurl import PackageURL

    qualifiers = {"arch": architecture, "distro": distribution}
    return PackageURL("deb", "debian", name, version, qualifiers).to_string()
