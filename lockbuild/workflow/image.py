"""The image of an environment: what it is called, how its layers are compressed, what the lock says of it; and
bringing it into an engine where the back-end is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError, SandboxError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.model.lock import LockedEnvironment, LockedLayers
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.model.lock import Lock
    from lockbuild.model.platform import Platform
    from lockbuild.oci.encoders import Compression
    from lockbuild.oci.image import Image
    from lockbuild.transport.engine import EngineEndpoint


def environment_image(project: Project, environment: Environment, lock: Lock | None = None) -> Image:
    """The image of an environment: a pure function of its trees, the toolchain's name, and what the lock says of it.

    Without ``lock``, that of an environment in the making, in which a derived tool is built.
    """
    from lockbuild.oci.image import compute

    return compute(environment, labels=_labels(project, environment, lock))


def compressed_image(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    environment: Environment,
    compression: Compression,
    *,
    check: bool = True,
) -> Image:
    """The same with compressed layers, which the store has afterwards (`lockbuild.oci.layers.encode`).

    With ``check`` it must be the one that the lock records, where it does: IntegrityError that shows both.
    """
    from lockbuild.oci.image import compute
    from lockbuild.oci.layers import encode

    layers = [
        encode(
            workspace.store,
            tree.digest,
            tree.root,
            compression,
            name=tree.name,
            report=workspace.report,
        )
        for tree in environment.trees
    ]
    image = compute(environment, labels=_labels(project, environment, lock), layers=layers)
    if check:
        require_recorded(project, lock, image, compression)
    return image


def require_recorded(project: Project, lock: Lock, image: Image, compression: Compression) -> None:
    """IntegrityError where the lock records another image for its platform, or another manifest of that compression."""
    recorded = lock.environments.get(str(image.platform))
    if recorded is None:
        return
    _require_id(project, recorded, image.platform, image.config_digest)
    place = f"{project.paths.lock}: environments.{image.platform}"
    if compression == "none":
        manifest, hint = recorded.manifest, "run `lockbuild lock --materialise`"
    elif compression in recorded.layers:
        from lockbuild.oci.encoders import encoder

        layers, here = recorded.layers[compression], encoder(compression)
        manifest = layers.manifest
        hint = f"run `lockbuild lock --materialise --compression {compression}`"
        if layers.encoder != here:
            hint = (
                f"the lock's layers were made by {layers.encoder!r}, and this lockbuild has {here!r}: "
                f"use the same version, or {hint}"
            )
        place += f".layers.{compression}"
    else:
        return
    if manifest != image.manifest_digest:
        raise IntegrityError(
            f"the image's manifest came out as {image.manifest_digest}, but the lock records {manifest}",
            on=place,
            hint=hint,
        )


def require_recorded_id(project: Project, lock: Lock, environment: Environment) -> None:
    """IntegrityError where the lock records another image ID for the environment. Takes no time: the ID follows from
    what the lock says and from which directories are there, while manifests have the sizes of all files in them."""
    recorded = lock.environments.get(str(environment.platform))
    if recorded is None:
        return
    from lockbuild.oci.image import configuration

    config = configuration(environment, labels=_labels(project, environment, lock))
    _require_id(project, recorded, environment.platform, Digest.of(config))


def _require_id(project: Project, recorded: LockedEnvironment, platform: Platform, found: Digest) -> None:
    if recorded.image != found:
        raise IntegrityError(
            f"the environment's image came out as {found}, but the lock records {recorded.image}",
            on=f"{project.paths.lock}: environments.{platform}",
            hint="the lock was edited or made by another version of lockbuild; run `lockbuild lock --materialise`",
        )


def locked_image(image: Image) -> LockedEnvironment:
    """What a lock says of an image with layers that are not compressed."""
    return LockedEnvironment(
        image=image.config_digest, manifest=image.manifest_digest, size=len(image.manifest)
    )


def recorded_environment(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    environment: Environment,
    compressions: Sequence[Compression],
) -> LockedEnvironment:
    """What the lock is to say of the environment's image, computed anew, with the ``compressions`` wanted."""
    from lockbuild.oci.encoders import encoder

    layers: dict[str, LockedLayers] = {}
    for compression in compressions:
        if compression != "none":
            made = compressed_image(workspace, project, lock, environment, compression, check=False)
            layers[compression] = LockedLayers(
                encoder=encoder(compression), manifest=made.manifest_digest, size=len(made.manifest)
            )
    plain = locked_image(environment_image(project, environment, lock))
    return plain.model_copy(update={"layers": layers})


def image_in_engine(workspace: Workspace, recorded: LockedEnvironment) -> Digest | None:
    """The ID by which the back-end runs a recorded image without loading it; None where its engine lacks it."""
    if workspace.backend.name != "docker":
        return recorded.image
    from lockbuild.oci.load import loaded

    return loaded(engine(workspace), recorded.image, recorded.manifest)


def load_image(workspace: Workspace, project: Project, environment: Environment, image: Image) -> Digest:
    """Bring the image into the engine, where the back-end is one; the ID to run it by."""
    if workspace.backend.name != "docker":
        return image.config_digest
    from lockbuild.oci.load import ensure_loaded

    name = project.manifest.toolchain.name
    return ensure_loaded(image, environment, engine(workspace), workspace.report, name=name)


def engine(workspace: Workspace) -> EngineEndpoint:
    """The engine that answers; SandboxError where none does."""
    from lockbuild.transport.engine import find_engine

    endpoint = find_engine(workspace.environ)
    if endpoint is None:
        raise SandboxError(
            "no container engine answers",
            hint="start Docker or Podman's service (`systemctl --user start podman.socket`), or say with "
            "DOCKER_HOST where it is; builds can do without: --backend bubblewrap",
        )
    return endpoint


def _labels(project: Project, environment: Environment, lock: Lock | None) -> dict[str, str]:
    from lockbuild.oci.image import image_labels

    locked = None if lock is None else lock.environment_digest(environment.platform)
    return image_labels(project.manifest.toolchain.name, locked)
