"""``from = "debian"``: packages mounted apart from the base, with what they need and the base has not.

What the base has is used from there, so both are of one suite, and where they share a package, of one version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source, Suite
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.archive import Indexes, read_indexes
from lockbuild.resolve.debian.base import add_package, index_of, index_paths
from lockbuild.resolve.debian.closure import asked, choose
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.universe import Avoid, Need, Universe
from lockbuild.resolve.remembered import recall_resolution, recipe_digest, remember_resolution


def resolve(
    name: str, request: DebianTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the packages of the tool ``name`` for each of ``platforms``: one tree each.

    A request that names no snapshot takes the base's, where that is of the same suite. ResolveError for packages
    that the suite does not have or that cannot be installed beside the base; errors of `read_indexes`.
    """
    base = context.resolved["base"]
    there = {platform: _there(base, platform, context) for platform in platforms}
    if request.snapshot is None:
        known = [suite for suite in base.suites if request.suite in (suite.name, suite.codename)]
        request = request.model_copy(update={"snapshot": known[0].snapshot if known else None})
    found: list[Resolution] = []

    def remembered(suite: Suite) -> bool:
        resolution = recall_resolution(context.store, _key(name, request, there, suite))
        found.extend([resolution] if resolution is not None else [])
        return resolution is not None

    indexes = read_indexes(
        request,
        lambda release: [path for platform in platforms for path in index_paths(request, release, platform)],
        context,
        enough=remembered,
    )
    if not found:
        found.append(_found(name, request, there, indexes))
        remember_resolution(context.store, _key(name, request, there, indexes.suite), found[0])
    return replace(found[0], suites=(indexes.suite,))


def _key(name: str, request: DebianTool, there: Mapping[Platform, _There], suite: Suite) -> Digest:
    """Of everything that decides the packages; of the base that is what it has."""
    recipe = {
        "name": name,
        "request": request.model_dump(mode="json"),
        "there": {str(platform): dict(known.versions) for platform, known in there.items()},
        "inrelease": str(suite.inrelease),
    }
    return recipe_digest("debian-tool", recipe)


def _found(name: str, request: DebianTool, there: Mapping[Platform, _There], indexes: Indexes) -> Resolution:
    trees: list[LockedTree] = []
    sources: dict[str, Source] = {}
    for platform, known in there.items():
        index = index_of(request, indexes, platform, and_these=known.index)
        packages = missing(index, request.packages, known.versions, platform.debian_architecture, on=name)
        tree = LockedTree(
            name=name,
            platform=platform,
            unpack="debian-tool",
            mount=request.mount or f"/opt/{name.partition('.')[2] or name}",
            exports={**exports(packages, platform), **request.exports},
        )
        trees.append(tree)
        for package in packages:
            add_package(sources, package, indexes.release.codename, tree.id)
    return Resolution(tuple(trees), tuple(sources[purl] for purl in sorted(sources)))


def missing(
    index: PackageIndex, requested: Sequence[str], there: Mapping[str, str], architecture: str, *, on: str
) -> list[Package]:
    """The packages, by name, that ``requested`` needs beside those that are ``there`` (name to version).

    ResolveError where nothing is missing, or where something needs another version of what is there.
    """
    others = frozenset(package for name in there for package in _other_versions(index, name, there[name]))
    universe = Universe(index, architecture, others, there)
    roots = [asked(universe, wanted, on=on) for wanted in sorted(set(requested))]
    chosen = {package.name: package for package in choose(universe, roots, on=on)}
    found: dict[str, Package] = {}
    open_: list[tuple[Need, str]] = [(root, "it is asked for") for root in roots]
    while open_:
        need, why = open_.pop()
        package = chosen[need.name]
        if package.name in found or universe.is_given(package):
            continue
        if package.name in there:
            raise ResolveError(
                f"{package.name} is needed ({why}); the base has {there[package.name]}, "
                f"the suite {package.version}",
                on=on,
                hint="lock both from one state of the suite: `lockbuild lock --upgrade base`, or one snapshot for both",
            )
        found[package.name] = package
        for requirement in universe.requirements(package):
            if not isinstance(requirement, Avoid):
                serving = next(
                    other for other in universe.serving(requirement) if chosen.get(other.name) is other
                )
                open_.append(
                    (
                        Need(serving.name, frozenset((serving,)), ""),
                        f"{package.name} needs {requirement.text}",
                    )
                )
    if not found:
        raise ResolveError(
            "the base has all of its packages already",
            on=on,
            hint="leave the tool out: its programs are in the base",
        )
    return [found[name] for name in sorted(found)]


def _other_versions(index: PackageIndex, name: str, version: str) -> list[Package]:
    """The versions of a package that are not the base's; none where the index does not have that."""
    from lockbuild.resolve.debian.version import version_key

    key = version_key(version)
    packages = index.packages(name)
    others = [package for package in packages if version_key(package.version) != key]
    return others if len(others) < len(packages) else []


@dataclass(frozen=True, slots=True)
class _There:
    """What a base has: ``versions`` by name, and the ``index`` of those that the suite need not have."""

    versions: Mapping[str, str]
    index: bytes = b""


def _there(base: Resolution, platform: Platform, context: ResolveContext) -> _There:
    own = packages_of(base, platform)
    if not any(tree.unpack == "oci-root" for tree in base.trees):
        return _There(own)
    from lockbuild.resolve.image_packages import installed_in

    image = installed_in(base, platform, context)
    return _There({**image.versions, **own}, image.index)


def packages_of(base: Resolution, platform: Platform) -> dict[str, str]:
    """Names and versions of the packages in the base of ``platform``."""
    from packageurl import PackageURL

    ids = {tree.id for tree in base.trees if tree.platform == platform}
    purls = [PackageURL.from_string(source.purl) for source in base.sources if ids.intersection(source.trees)]
    return {purl.name: purl.version or "" for purl in purls if purl.type == "deb"}


def exports(packages: Sequence[Package], platform: Platform) -> dict[str, str]:
    """Where programs and shared libraries are, which packages of libraries have (Debian Policy 8.1)."""
    exports = {"PATH": "$OUT/usr/bin:$OUT/usr/sbin"}
    if any(package.name.startswith("lib") and package.architecture != "all" for package in packages):
        exports["LD_LIBRARY_PATH"] = f"$OUT/usr/lib/{platform.machine}-linux-gnu:$OUT/usr/lib"
    return exports
