"""``[base.debian]``: the closure of some packages of a suite, as the sources of a root file system.

The closure is Debian's own: Essential packages, the requested ones, and what they Depend and Pre-Depend
on (Debian Policy 7 and 3.8); no Recommends. Only signed indexes are read, no package is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source, Suite
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.archive import Indexes, read_indexes
from lockbuild.resolve.debian.closure import closure
from lockbuild.resolve.debian.compression import SUFFIXES
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.release import Release
from lockbuild.resolve.remembered import recall_resolution, recipe_digest, remember_resolution


def resolve(
    name: str, request: DebianBase, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the root file system ``name`` for each of ``platforms``: one tree each, and its packages.

    A package that several platforms share (Architecture: all) is one source of several trees. ResolveError
    for a package that the suite does not have, or that cannot be installed; errors of `read_indexes`.
    """
    known: list[Resolution] = []

    def remembered(suite: Suite) -> bool:
        found = recall_resolution(context.store, _key(name, request, platforms, suite))
        known.extend([found] if found is not None else [])
        return found is not None

    indexes = read_indexes(
        request,
        lambda release: [path for platform in platforms for path in index_paths(request, release, platform)],
        context,
        enough=remembered,
    )
    if not known:
        known.append(_closures(name, request, platforms, indexes))
        key = _key(name, request, platforms, indexes.suite)
        remember_resolution(context.store, key, known[0])
    return replace(known[0], suites=(indexes.suite,))


def _key(name: str, request: DebianBase, platforms: Sequence[Platform], suite: Suite) -> Digest:
    """Of everything that decides the closure: the signed index lists the digests of the others."""
    recipe = {
        "name": name,
        "request": request.model_dump(mode="json"),
        "platforms": [str(platform) for platform in platforms],
        "inrelease": str(suite.inrelease),
    }
    return recipe_digest("debian-base", recipe)


def _closures(name: str, request: DebianBase, platforms: Sequence[Platform], indexes: Indexes) -> Resolution:
    trees = [
        LockedTree(name=name, platform=platform, unpack="debian-root", mount="/") for platform in platforms
    ]
    sources: dict[str, Source] = {}
    for tree, platform in zip(trees, platforms, strict=True):
        index = index_of(request, indexes, platform)
        for package in closure(index, request.packages, platform.debian_architecture, on=name):
            add_package(sources, package, indexes.release.codename, tree.id)
    return Resolution(tuple(trees), tuple(sources[purl] for purl in sorted(sources)))


def index_paths(request: DebianBase, release: Release, platform: Platform) -> list[str]:
    """The ``Packages`` indexes of ``platform``, below ``dists/<suite>/`` without a compression suffix."""
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


def index_of(
    request: DebianBase, indexes: Indexes, platform: Platform, and_these: bytes = b""
) -> PackageIndex:
    """The packages that ``indexes`` have for ``platform``, and those that another index has beside them."""
    texts = [indexes.texts[path] for path in index_paths(request, indexes.release, platform)]
    texts += [and_these] if and_these else []
    architecture = platform.debian_architecture
    return PackageIndex(texts, architecture, on=f"the index of {indexes.release.codename} for {architecture}")


def add_package(sources: dict[str, Source], package: Package, codename: str, tree: str) -> None:
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
