"""Which Debian packages an image has, and which ones are to be added to them.

Its list is in some layer, and nobody says in which: layers are downloaded from the top until one has it. What was
found is remembered in the store by the digest of the image's manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockbuild.archive import dpkg_status
from lockbuild.archive.layer_files import LayerFiles
from lockbuild.environment.oci_root import layer_stream
from lockbuild.errors import ResolveError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source, Suite
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.archive import Indexes, read_indexes
from lockbuild.resolve.debian.base import add_package, index_of, index_paths
from lockbuild.resolve.debian.installed import Installed, additions
from lockbuild.resolve.locked_image import LockedImage, image_of
from lockbuild.resolve.remembered import recall_resolution, recipe_digest, remember_resolution
from lockbuild.resolve.target import release_of
from lockbuild.transport.documents import kept_or_read

UNKNOWN = "unknown"
"""What a pin says of what was looked for and is not there."""


def package_list(image: LockedImage, context: ResolveContext) -> bytes | None:
    """The image's own list of packages; None where it has none. FetchError, IntegrityError for a layer."""
    name = f"image/packages/{image.digest}"
    return kept_or_read(context.http.documents, name, lambda: _remembered_list(image, context)) or None


def _remembered_list(image: LockedImage, context: ResolveContext) -> bytes:
    key = Digest.of(f"package list\0{image.digest}".encode())
    known = context.store.recall(key)
    if known is not None and context.store.has_blob(known):
        return context.store.verified_blob(known).read_bytes()
    text = _found_list(image, context) or b""
    context.store.remember(key, context.store.add_blob(text))
    return text


def _found_list(image: LockedImage, context: ResolveContext) -> bytes | None:
    found = LayerFiles(dpkg_status.DIRECTORY, dpkg_status.is_list, limit=dpkg_status.LIMIT)
    layers = list(zip(image.manifest.layers, image.config.diff_ids, strict=True))
    context.report(Note(f"looking for the list of packages in {image.reference}", "debug"))
    for number, (layer, diff_id) in reversed(list(enumerate(layers, 1))):
        context.registries.fetch_blob(image.reference, layer.digest, context.store, size=layer.size)
        origin = f"{image.reference}, layer {number} of {len(layers)} ({layer.digest})"
        with layer_stream(context.store.verified_blob(layer.digest), diff_id, origin) as stream:
            found.layer(stream, origin)
        if found.is_decided(dpkg_status.STATUS) and (
            dpkg_status.STATUS in found.found or found.is_decided(dpkg_status.DIRECTORY)
        ):
            break
    return dpkg_status.package_list(found.found)


def with_packages(
    name: str,
    request: DebianBase,
    resolution: Resolution,
    images: Mapping[Platform, LockedImage],
    context: ResolveContext,
) -> Resolution:
    """``resolution`` with the packages of ``request`` on top, and what they need and the images have not.

    ResolveError for an image without a list of packages, and where they cannot be added; errors of `read_indexes`.
    """
    lists: dict[Platform, bytes] = {}
    for platform, image in images.items():
        text = package_list(image, context)
        if text is None:
            raise ResolveError(
                "the image has no list of Debian packages (/var/lib/dpkg/status), so none can be added to them",
                on=str(image.reference),
                hint="leave out [base.debian], or name an image that was made from Debian packages; "
                'from = "debian" has packages apart from the base',
            )
        lists[platform] = text
    sources, suite = _on_top(name, request, lists, context)
    used = {tree for source in sources for tree in source.trees}
    trees = [
        tree.model_copy(update={"parameters": {"packages": str(Digest.of(lists[_platform(tree)]))}})
        if tree.id in used
        else tree
        for tree in resolution.trees
    ]
    return Resolution(tuple(trees), (*resolution.sources, *sources), (suite,) if used else ())


def installed_in(resolution: Resolution, platform: Platform, context: ResolveContext) -> Installed:
    """The Debian packages in the image that ``resolution`` is, without those on top of it; none where it is no image,
    or has no list."""
    for tree in resolution.trees:
        if tree.unpack == "oci-root" and tree.platform == platform:
            image = image_of(tree, resolution.sources, context)
            text = package_list(image, context) or b""
            return Installed(text, platform.debian_architecture, on=str(image.reference))
    return Installed(b"", platform.debian_architecture, on=str(platform))


def looked_into(resolution: Resolution, context: ResolveContext) -> Resolution:
    """With pins that say which Python and glibc the images in it have, where those do not say so yet."""
    pins: dict[str, dict[str, str]] = {}
    for tree in resolution.trees:
        if tree.unpack == "oci-root" and not {"python", "glibc"} <= tree.pins.keys():
            packages = installed_in(resolution, _platform(tree), context).versions
            python = release_of(packages.get("python3"), 3) or tree.exports.get("PYTHON_VERSION")
            pins[tree.id] = {
                "python": release_of(python, 3) or UNKNOWN,
                "glibc": release_of(packages.get("libc6"), 2) or UNKNOWN,
            }
    return _with_pins(resolution, pins) if pins else resolution


def _on_top(
    name: str, request: DebianBase, lists: Mapping[Platform, bytes], context: ResolveContext
) -> tuple[Sequence[Source], Suite]:
    known: list[Resolution] = []

    def remembered(suite: Suite) -> bool:
        found = recall_resolution(context.store, _key(name, request, lists, suite))
        known.extend([found] if found is not None else [])
        return found is not None

    indexes = read_indexes(
        request,
        lambda release: [path for platform in lists for path in index_paths(request, release, platform)],
        context,
        enough=remembered,
    )
    if not known:
        known.append(Resolution((), tuple(_chosen(name, request, lists, indexes))))
        remember_resolution(context.store, _key(name, request, lists, indexes.suite), known[0])
    return known[0].sources, indexes.suite


def _key(name: str, request: DebianBase, lists: Mapping[Platform, bytes], suite: Suite) -> Digest:
    recipe = {
        "name": name,
        "request": request.model_dump(mode="json"),
        "there": {str(platform): str(Digest.of(text)) for platform, text in lists.items()},
        "inrelease": str(suite.inrelease),
    }
    return recipe_digest("debian-on-image", recipe)


def _chosen(
    name: str, request: DebianBase, lists: Mapping[Platform, bytes], indexes: Indexes
) -> list[Source]:
    sources: dict[str, Source] = {}
    for platform, text in lists.items():
        architecture = platform.debian_architecture
        there = Installed(text, architecture, on=f"the image for {platform}")
        index = index_of(request, indexes, platform, and_these=there.index)
        for package in additions(index, there.versions, request.packages, architecture, on=name):
            add_package(sources, package, indexes.release.codename, f"{platform}:{name}")
    return [sources[purl] for purl in sorted(sources)]


def _platform(tree: LockedTree) -> Platform:
    assert tree.platform != "any", "the schema of locks and the resolver give a base its platform"
    return tree.platform


def _with_pins(resolution: Resolution, pins: dict[str, dict[str, str]]) -> Resolution:
    """The same with more pins, by tree id; those that are there stay."""
    trees = [
        tree.model_copy(update={"pins": {**pins.get(tree.id, {}), **tree.pins}}) for tree in resolution.trees
    ]
    return replace(resolution, trees=tuple(trees))
