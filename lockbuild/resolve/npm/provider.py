"""``from = "npm"``: the closure that a package-lock.json locks already, as a cache for ``npm ci``.

Nothing is read from the network: npm has chosen the versions and knows their digests.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockbuild.environment.npm_cache import EXPORTS
from lockbuild.errors import IntegrityError, ResolveError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import AnyPlatform, LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import NpmTool
from lockbuild.reading import open_regular
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.npm.lockfile import LockedPackage, read_packages

_LARGEST = 64 << 20


def resolve(
    name: str, request: NpmTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock every package that the project's package-lock.json names: one tree for all platforms where they need
    the same packages, else one for each. Optional packages for other systems are left out, as npm does.

    ResolveError where a package that is not optional does not run on one of ``platforms``, or there is none at
    all; InvalidFileError for what in the file cannot be locked.
    """
    file = context.project / request.lockfile
    text = _read(name, request, context)
    packages = read_packages(text, str(file))
    chosen = {platform: _for(platform, packages, name) for platform in platforms}
    same = all(selection == chosen[platforms[0]] for selection in chosen.values())
    scopes: list[tuple[Platform | AnyPlatform, list[LockedPackage]]] = list(chosen.items())
    if same:
        scopes = [("any", chosen[platforms[0]])]
    short = name.partition(".")[2] or name
    trees: list[LockedTree] = []
    sources: dict[tuple[str, str], Source] = {}
    for scope, selection in scopes:
        if not selection:
            raise ResolveError("it locks no package", on=str(file), hint="leave the tool out")
        tree = LockedTree(
            name=name,
            platform=scope,
            unpack="npm",
            mount=request.mount or f"/opt/{short}",
            pins={"lockfile": str(Digest.of(text))},
            exports={**EXPORTS, **request.exports},
        )
        trees.append(tree)
        for package in selection:
            _add(sources, package, tree.id)
    return Resolution(tuple(trees), tuple(sources.values()))


def _read(name: str, request: NpmTool, context: ResolveContext) -> bytes:
    file = context.project / request.lockfile
    try:
        with open_regular(file) as stream:
            text = stream.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", on=f"{name}.lockfile") from None
    if len(text) > _LARGEST:
        raise UsageError(f"{file} has more than {_LARGEST >> 20} MiB", on=f"{name}.lockfile")
    return text


def _for(platform: Platform, packages: Sequence[LockedPackage], name: str) -> list[LockedPackage]:
    """The packages that npm installs on ``platform``."""
    chosen = []
    for package in packages:
        why = package.unfit(platform)
        if why is None:
            chosen.append(package)
        elif not package.optional:
            raise ResolveError(
                f"{package.name} {package.version} is for {why}, and not for {platform}",
                on=f'{name}: packages."{package.key}"',
                hint="leave the package or the platform out, or make it an optional dependency",
            )
    return chosen


def _add(sources: dict[tuple[str, str], Source], package: LockedPackage, tree: str) -> None:
    purl = package_url(package.name, package.version)
    key = (purl, package.path or package.url or "")
    known = sources.get(key)
    if known is None:
        sources[key] = Source(
            purl=purl, path=package.path, url=package.url, sha512=package.sha512, trees=[tree]
        )
    elif known.sha512 != package.sha512:
        raise IntegrityError("the file gives it different digests at different places", on=purl)
    else:
        sources[key] = known.model_copy(update={"trees": sorted({*known.trees, tree})})


def package_url(name: str, version: str) -> str:
    """The package URL of an npm package (purl specification, type ``npm``): the scope is its namespace."""
    from packageurl import PackageURL

    scope, _, short = name.rpartition("/")
    return PackageURL("npm", scope or None, short, version).to_string()
