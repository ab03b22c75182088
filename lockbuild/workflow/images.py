"""``lockbuild image``: the images that a lock makes, as digests, as a file, in an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import InconclusiveError, UsageError
from lockbuild.events import Advanced, Finished, Note, Started
from lockbuild.model.belonging import locked_platforms
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.oci.encoders import Compression, encoder
from lockbuild.oci.image import Image
from lockbuild.workflow.image import compressed_image, engine, environment_image, require_recorded
from lockbuild.workflow.known import known_environment
from lockbuild.workflow.project import Project, load_lock, require_current
from lockbuild.workflow.sync import sync
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lockbuild.oci.index import ImageIndex
    from lockbuild.oci.load import LoadedImage


@dataclass(frozen=True, slots=True)
class ImageDigests:
    """An image by its digests. ``size`` is that of the manifest in bytes, where it is known; ``encoder`` is what
    compressed its layers; ``recorded`` is whether this is what the lock says, and was not computed now."""

    platform: Platform
    config: Digest
    manifest: Digest
    size: int | None
    encoder: str
    recorded: bool


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image with the environment that it is of."""

    environment: Environment
    image: Image


@dataclass(frozen=True, slots=True)
class BuiltArchive:
    """A file with images: ``reference`` is what it calls them, ``index`` stands over them where there is one."""

    images: tuple[MadeImage, ...]
    index: ImageIndex | None
    reference: str
    size: int


def image_digests(
    workspace: Workspace, project: Project, platforms: Sequence[Platform], compression: Compression
) -> list[ImageDigests]:
    """The digests of the images for ``platforms``: computed where the store has the trees, and then those that the lock
    records; else what the lock records. Fetches and loads nothing.

    IntegrityError where the lock records others; InconclusiveError where neither trees nor records are there.
    """
    lock = current_lock(project, platforms)
    workspace.hold_store()
    return [_digests(workspace, project, lock, platform, compression) for platform in platforms]


def _digests(
    workspace: Workspace, project: Project, lock: Lock, platform: Platform, compression: Compression
) -> ImageDigests:
    environment = known_environment(workspace, project, lock, platform)
    if environment is not None:
        image = _image(workspace, project, lock, environment, compression)
        size = len(image.manifest)
        return ImageDigests(
            platform, image.config_digest, image.manifest_digest, size, encoder(compression), False
        )
    recorded = lock.environments.get(str(platform))
    if recorded is not None and compression == "none":
        return ImageDigests(platform, recorded.image, recorded.manifest, recorded.size, "none", True)
    if recorded is not None and compression in recorded.layers:
        layers = recorded.layers[compression]
        return ImageDigests(platform, recorded.image, layers.manifest, layers.size, layers.encoder, True)
    option = "" if compression == "none" else f" --compression {compression}"
    raise InconclusiveError(
        f"the image for {platform} is not known: the store lacks trees of it, and the lock does not record "
        + ("it" if compression == "none" else f"it with layers in {compression}"),
        on=str(project.paths.lock),
        hint=f"run `lockbuild sync`, or have the lock record it: `lockbuild lock --materialise{option}`"
        if platform == workspace.platform
        else f"have the lock record it: `lockbuild lock --materialise --platform {platform}{option}`",
    )


def known_images(
    workspace: Workspace, project: Project, platforms: Sequence[Platform], compression: Compression
) -> list[Image]:
    """The images for ``platforms``, computed from the trees; InconclusiveError where the store lacks some."""
    lock = current_lock(project, platforms)
    workspace.hold_store()
    images = []
    for platform in platforms:
        environment = known_environment(workspace, project, lock, platform)
        if environment is None:
            raise InconclusiveError(
                f"the store lacks trees of the image for {platform}",
                on=str(project.paths.lock),
                hint="run `lockbuild sync`"
                if platform == workspace.platform
                else "`lockbuild image build` makes them",
            )
        images.append(_image(workspace, project, lock, environment, compression))
    return images


def index_of(images: Sequence[ImageDigests]) -> ImageIndex:
    """The index over images; InconclusiveError where the lock does not say how large a manifest is."""
    from lockbuild.oci.index import ImageEntry, compute_index

    entries = []
    for image in images:
        if image.size is None:
            raise InconclusiveError(
                f"the lock does not say how large the manifest for {image.platform} is",
                hint=f"run `lockbuild lock --materialise --platform {image.platform}`, which adds it",
            )
        entries.append(ImageEntry(image.platform, image.manifest, image.size))
    return compute_index(entries)


def make_images(
    workspace: Workspace,
    project: Project,
    platforms: Sequence[Platform],
    compression: Compression,
) -> list[MadeImage]:
    """The images for ``platforms``, whose trees are made where the store lacks them, with their layers compressed so.

    As `lockbuild.workflow.sync.sync`; IntegrityError where the lock records others.
    """
    lock = current_lock(project, platforms)
    made = []
    for platform in platforms:
        environment = sync(workspace, project, lock, platform, load=False).environment
        made.append(MadeImage(environment, _image(workspace, project, lock, environment, compression)))
    return made


def build_archive(
    workspace: Workspace,
    project: Project,
    platforms: Sequence[Platform],
    compression: Compression,
    target: Path,
    *,
    reference: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> BuiltArchive:
    """Write the images for ``platforms`` to ``target``, as `lockbuild.oci.archive` says; atomically.

    It is called ``reference`` (``name:tag``), by default after toolchain and digest. With several platforms or with
    ``annotations`` an index stands over the images, and has those. The same lock gives the same bytes.
    """
    from lockbuild.oci.archive import ImageArchive, chunks_of
    from lockbuild.oci.index import ImageEntry, compute_index
    from lockbuild.oci.load import default_reference
    from lockbuild.workflow.output import output
    from lockbuild.workflow.place import is_written_into

    is_written_into(target)
    made = make_images(workspace, project, platforms, compression)
    images = [each.image for each in made]
    name = project.manifest.toolchain.name
    index = None
    if len(images) > 1 or annotations:
        index = compute_index([ImageEntry.of(image) for image in images], annotations)
    tags = [default_reference(name, image.config_digest) for image in images]
    if reference is not None and len(images) == 1:
        tags = [reference]
    whole = reference or (tags[0] if index is None else default_reference(name, index.digest))
    chunks = chunks_of(workspace.store, [each.environment for each in made])
    archive = ImageArchive(images, tags, whole, chunks, index)
    size = archive.size()
    task = f"image:{target}"

    with output(target, size, None, what="the image") as file:
        workspace.report(Started(task, f"write {target.name}", size))
        try:

            def write(data: Buffer) -> None:
                file.write(data)
                workspace.report(Advanced(task, memoryview(data).nbytes))

            archive.write(write)
            file.commit()
        finally:
            workspace.report(Finished(task))
    if compression == "zstd":
        workspace.report(
            Note("`docker load` reads layers in zstd since Docker 23; for older ones use --compression gzip")
        )
    return BuiltArchive(tuple(made), index, whole, size)


def load_into_engine(
    workspace: Workspace, project: Project, platform: Platform, *, reference: str | None = None
) -> tuple[MadeImage, LoadedImage]:
    """Bring the image for ``platform`` into the engine that answers, whatever the back-end; what was sent.

    It is called ``reference``, too. SandboxError where no engine answers or it refuses.
    """
    from lockbuild.oci.load import load, tag

    endpoint = engine(workspace)
    (made,) = make_images(workspace, project, [platform], "none")
    loaded = load(
        made.image, made.environment, endpoint, workspace.report, name=project.manifest.toolchain.name
    )
    if reference is not None:
        tag(endpoint, loaded.identity, reference)
    return made, loaded


def current_lock(project: Project, platforms: Sequence[Platform]) -> Lock:
    """The project's lock, which must be current and for all of ``platforms``."""
    lock = load_lock(project.paths)
    require_current(project, lock)
    there = locked_platforms(lock)
    for platform in platforms:
        if platform not in there:
            raise UsageError(
                f"the lock is not for {platform} (it is for {', '.join(map(str, there))})",
                on=str(project.paths.lock),
                hint=f"run `lockbuild lock --platform {platform}`, which adds it and keeps every other pin",
            )
    return lock


def _image(
    workspace: Workspace, project: Project, lock: Lock, environment: Environment, compression: Compression
) -> Image:
    if compression != "none":
        return compressed_image(workspace, project, lock, environment, compression)
    image = environment_image(project, environment, lock)
    require_recorded(project, lock, image, compression)
    return image
