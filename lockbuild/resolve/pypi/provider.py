"""``from = "pypi"``: wheels for a requirement and its dependencies, from the configured indexes.

Only the indexes and the wheels' metadata are read; the wheels are locked by the digests that the index
publishes. They are chosen for the Python and glibc of each platform's base root.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lockbuild.errors import ResolveError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PypiTool
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.transport.failures import ABSENT, ABSENT_HINT, OfflineError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from lockbuild.resolve.pypi.metadata import WheelMetadata
    from lockbuild.resolve.pypi.wheels import Wheel
    from lockbuild.transport.index import IndexFile, PackageIndexes


def resolve(
    name: str, request: PypiTool, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock a requirement for each platform: a tree a platform, a source a wheel.

    ``context.targets`` must have each platform. ResolveError where no wheels fit or the index publishes no
    SHA-256; FetchError where an index cannot be read.
    """
    from packaging.requirements import Requirement

    from lockbuild.transport.index import PackageIndexes

    requirement = Requirement(request.requirement)
    indexes = PackageIndexes(context.http, context.config)
    metadata = _MetadataCache(context)
    trees: list[LockedTree] = []
    wheels: dict[str, Wheel] = {}
    users: dict[str, list[str]] = {}
    with ThreadPoolExecutor(context.config.network.connections) as pool:
        for platform in platforms:
            tree = LockedTree(
                name=name,
                platform=platform,
                unpack="wheels",
                mount=request.mount or f"/opt/{name.partition('.')[2] or name}",
                exports=request.exports,
            )
            trees.append(tree)
            for wheel in _closure(requirement, platform, context, indexes, metadata, pool, name).values():
                wheels[wheel.file.name] = wheel
                users.setdefault(wheel.file.name, []).append(tree.id)
        ordered = sorted(wheels)
        sources = pool.map(lambda file: _source(wheels[file], users[file], context), ordered)
        return Resolution(tuple(trees), tuple(sources))


def _closure(
    requirement: Requirement,
    platform: Platform,
    context: ResolveContext,
    indexes: PackageIndexes,
    metadata: Callable[[IndexFile], WheelMetadata],
    pool: ThreadPoolExecutor,
    name: str,
) -> dict[str, Wheel]:
    from lockbuild.resolve.pypi.closure import closure
    from lockbuild.resolve.pypi.metadata import can_be_read
    from lockbuild.resolve.pypi.wheels import WheelFinder

    target = context.targets.get(platform)
    if target is None or target.version is None:
        raise ResolveError(
            f"the environment for {platform} has no Python to choose wheels for",
            on=name,
            hint='add "python3" to the packages of [base.debian], or say with `python` which one [base.image] has',
        )
    preferred = _versions(context.kept)
    finder = WheelFinder(
        indexes,
        target,
        platform,
        preferred=preferred,
        not_after=context.not_after,
        readable=lambda file: can_be_read(context.http, file),
    )
    try:
        chosen = closure(
            requirement,
            finder,
            target.markers(platform),
            metadata,
            lambda project: _in_background(pool, indexes, project),
        )
    except (ResolveError, OfflineError) as error:
        place = f"{name} ({platform})"
        error.on = f"{place}: {error.on}" if error.on else place
        raise
    for project, wheel in chosen.items():
        newer = [version for version in finder.passed_over.get(project, ()) if version > wheel.version]
        if newer:
            context.report(
                Note(
                    f"{name}: {project} {wheel.version} was taken and not {max(newer)}, of which no loaded bundle has "
                    "the metadata",
                    level="warning",
                )
            )
    unknown = sorted(wheel.file.name for wheel in chosen.values() if wheel.file.uploaded is None)
    if context.not_after is not None and unknown:
        context.report(
            Note(f"{name}: the index does not say when it got {', '.join(unknown)}", level="warning")
        )
    return chosen


def _versions(resolution: Resolution | None) -> dict[str, str]:
    """The versions that something is locked to, by project."""
    from packageurl import PackageURL

    found = {}
    for source in resolution.sources if resolution is not None else ():
        purl = PackageURL.from_string(source.purl)
        if purl.type == "pypi" and purl.version is not None:
            found[purl.name] = purl.version
    return found


def _in_background(pool: ThreadPoolExecutor, indexes: PackageIndexes, project: str) -> None:
    # A failure is kept in the page's own future, and raised to whoever needs the page.
    pool.submit(indexes.project, project)


class _MetadataCache:
    """Each wheel's metadata once, also where platforms share the wheel."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._known: dict[str, WheelMetadata] = {}

    def __call__(self, wheel: IndexFile) -> WheelMetadata:
        from lockbuild.resolve.pypi.metadata import read_metadata

        with self._lock:
            known = self._known.get(wheel.url)
        if known is None:
            known = read_metadata(self._context.http, wheel, self._context.store)
            with self._lock:
                self._known[wheel.url] = known
        return known


def _source(wheel: Wheel, trees: list[str], context: ResolveContext) -> Source:
    from packageurl import PackageURL
    from packaging.utils import parse_wheel_filename

    file = wheel.file
    digest: Digest | None = file.sha256
    if digest is None:
        raise ResolveError(
            "the index publishes no SHA-256 of it, so it cannot be locked",
            on=file.name,
            hint="use an index that publishes sha256 digests",
        )
    project, version, _, _ = parse_wheel_filename(file.name)
    return Source(
        purl=PackageURL(type="pypi", name=project, version=str(version)).to_string(),
        path=file.name,
        size=file.size if file.size is not None else _size(file, digest, context),
        sha256=digest,
        trees=trees,
    )


def _size(file: IndexFile, digest: Digest, context: ResolveContext) -> int | None:
    """What the index does not say, the server does."""
    document = f"pypi/size/{digest.hex}"
    kept = context.http.documents.find(document)
    if kept is not None and kept.isdigit():
        return int(kept)
    if file.kept:
        raise OfflineError(f"its size {ABSENT}", on=file.name, hint=ABSENT_HINT)
    size = context.http.size(file.url)
    if size is not None:
        context.http.documents.note(document, b"%d" % size)
    return size
