"""``[base.image]``: an image of a registry, as the sources of a root file system.

What the reference means is asked for once; manifests and configurations say by digest and size what else there is, so
no layer is downloaded. Sources are ``pkg:oci`` (package URL specification, type ``oci``), at ``oci://`` and the
canonical reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from lockbuild.environment.compose import FIXED_VARIABLES
from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.image import (
    INDEX_TYPES,
    Descriptor,
    ImageConfig,
    read_index,
    repeated,
)
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.reference import Reference
from lockbuild.model.requests import ImageRoot
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.image_packages import with_packages
from lockbuild.resolve.locked_image import LockedImage, manifest_at, read_image
from lockbuild.transport.failures import NotFoundError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PERSONAL = frozenset(
    {"HOME", "HOSTNAME", "LOGNAME", "MAIL", "OLDPWD", "PWD", "SHELL", "SHLVL", "TERM", "USER", "_"}
)
_PROXY = re.compile(r"(?:https?|ftp|all|no|rsync)_proxy", re.I)
_SECRET = re.compile(r"token|passw|secret|credential|(?:api|access|private|signing)_?key", re.I)
_OUT = re.compile(r"\$(?:OUT\b|\{OUT\})")


def resolve(
    name: str, request: ImageRoot, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the image for each of ``platforms``: one tree each, with the Debian packages that it shall have on top.

    A layer that several platforms share is one source of several trees. Where other platforms are locked already,
    what the reference meant for them counts. ResolveError where it is no image, or none for a platform; errors of
    the registry; those of `image_packages.on_top`.
    """
    asked = Reference.parse(request.image.reference)
    images, meant = _images(name, asked, platforms, context)
    trees: list[LockedTree] = []
    sources: dict[str, Source] = {}
    for platform, image in images.items():
        pins = {"reference": str(asked), "digest": str(meant), **_said(request, image.config)}
        exports, left_out = variables_of(image.config)
        tree = LockedTree(
            name=name, platform=platform, unpack="oci-root", mount="/", pins=pins, exports=exports
        )
        if left_out:
            context.report(Note(f"{name}: variables of the image that are left out: {', '.join(left_out)}"))
        trees.append(tree)
        for source in sources_of(image, asked, platform, tree.id):
            known = sources.get(source.purl)
            if known is not None:
                source = source.model_copy(update={"trees": sorted({*known.trees, *source.trees})})
            sources[source.purl] = source
    resolution = Resolution(tuple(trees), tuple(sources.values()))
    if request.debian is None or not request.debian.packages:
        return resolution
    return with_packages(name, request.debian, resolution, images, context)


def variables_of(config: ImageConfig) -> tuple[dict[str, str], list[str]]:
    """The variables of an image that its processes shall have, and the names of those that people may miss."""
    exports: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in config.variables:
        if name in _PERSONAL or name in FIXED_VARIABLES:
            continue
        if (
            not _VARIABLE.fullmatch(name)
            or _PROXY.fullmatch(name)
            or _SECRET.search(name)
            or _OUT.search(value)
            or "\0" in value
        ):
            left_out.append(name)
        else:
            exports[name] = value
    return exports, left_out


def sources_of(image: LockedImage, asked: Reference, platform: Platform, tree: str) -> Iterator[Source]:
    """The manifest of ``image``, its configuration and its layers, each once."""
    qualifiers = {"arch": platform.architecture, **({"tag": asked.tag} if asked.tag else {})}
    yield _source(asked, image.digest, image.size, tree, qualifiers)
    for blob in repeated([image.manifest.config, *image.manifest.layers]):
        yield _source(asked, blob.digest, blob.size, tree, {})


def moved(before: Resolution, after: Resolution) -> list[str]:
    """What to tell of a reference that means another image now than when it was locked."""
    known = {(tree.name, tree.pins.get("reference")): tree.pins.get("digest") for tree in before.trees}
    found: dict[str, None] = {}
    for tree in after.trees:
        reference, now = tree.pins.get("reference"), tree.pins.get("digest")
        then = known.get((tree.name, reference))
        if tree.unpack == "oci-root" and then is not None and then != now:
            found[f"{tree.name}: {reference} was {then} when it was locked, and is {now} now"] = None
    return list(found)


def _images(
    name: str, asked: Reference, platforms: Sequence[Platform], context: ResolveContext
) -> tuple[dict[Platform, LockedImage], Digest]:
    """The image for each platform, and the digest that the reference means."""
    pinned = _kept(name, asked, context)
    try:
        top = manifest_at(asked if pinned is None else asked.pinned(pinned), context)
    except NotFoundError as error:
        raise ResolveError(
            f"the registry has no {asked} ({error.what})",
            on=f"{name}.image.reference",
            hint="look at its spelling; many registries say so, too, to whoever may not see it (`docker login`)",
        ) from error
    if top.media_type not in INDEX_TYPES:
        image = read_image(asked.at(top.digest), top.body, top.media_type, context)
        for platform in platforms:
            _require(image, platform, asked)
        return dict.fromkeys(platforms, image), top.digest
    index = read_index(top.body, on=str(asked))
    images: dict[Platform, LockedImage] = {}
    for platform in platforms:
        entry = index.entry(platform)
        if entry is None:
            raise ResolveError(
                f"there is no image for {platform} (there is one for {', '.join(index.platforms) or 'nothing'})",
                on=str(asked),
                hint="leave the platform out of `platforms`, or name an image that has it",
            )
        images[platform] = _entry(asked, entry, context)
        _require(images[platform], platform, asked)
    return images, top.digest


def _kept(name: str, asked: Reference, context: ResolveContext) -> Digest | None:
    """What the reference meant for the platforms that stay locked."""
    for tree in context.kept.trees if context.kept is not None else ():
        if tree.name == name and tree.pins.get("reference") == str(asked):
            return Digest.parse(tree.pins["digest"])
    return None


def _entry(asked: Reference, entry: Descriptor, context: ResolveContext) -> LockedImage:
    found = manifest_at(asked.at(entry.digest), context)
    if len(found.body) != entry.size:
        raise IntegrityError(
            f"its manifest {entry.digest} has {len(found.body)} bytes, the index says {entry.size}",
            on=str(asked),
        )
    return read_image(asked.at(entry.digest), found.body, found.media_type, context)


def _require(image: LockedImage, platform: Platform, asked: Reference) -> None:
    if (image.config.os, image.config.architecture) != (platform.os, platform.architecture):
        raise ResolveError(
            f"the image is for {image.config.os}/{image.config.architecture}, not for {platform}",
            on=str(asked),
            hint="leave the platform out of `platforms`, or name an image that has several",
        )


def _said(request: ImageRoot, config: ImageConfig) -> dict[str, str]:
    """What is known of an image without looking into it."""
    said: dict[str, str | None] = {"python": request.image.python, "glibc": request.image.glibc}
    with suppress(ValueError, OverflowError):
        created = datetime.fromisoformat(config.created or "")
        if created.tzinfo is not None:
            said["created"] = f"{created.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {key: value for key, value in said.items() if value}


def _source(asked: Reference, digest: Digest, size: int, tree: str, qualifiers: dict[str, str]) -> Source:
    from packageurl import PackageURL

    purl = PackageURL(
        type="oci",
        name=asked.repository.rpartition("/")[2],
        version=str(digest),
        qualifiers={**qualifiers, "repository_url": asked.name},
    )
    return Source(
        purl=purl.to_string(), url=f"oci://{asked.name}@{digest}", size=size, sha256=digest, trees=[tree]
    )
