"""The image of an environment, and bringing it into an engine where the back-end is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.errors import SandboxError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.model.lock import LockedEnvironment
    from lockbuild.oci.image import Image
    from lockbuild.transport.engine import EngineEndpoint


def environment_image(project: Project, environment: Environment) -> Image:
    """The image of an environment: a pure function of its trees and the toolchain's name."""
    from lockbuild.oci.image import compute

    return compute(environment, labels={"org.opencontainers.image.title": project.manifest.toolchain.name})


def image_in_engine(workspace: Workspace, recorded: LockedEnvironment) -> Digest | None:
    """The ID by which the back-end runs a recorded image without loading it; None where its engine lacks it."""
    if workspace.backend.name != "docker":
        return recorded.image
    from lockbuild.oci.load import loaded

    return loaded(_engine(workspace), recorded.image, recorded.manifest)


def load_image(workspace: Workspace, project: Project, environment: Environment, image: Image) -> Digest:
    """Bring the image into the engine, where the back-end is one; the ID to run it by."""
    if workspace.backend.name != "docker":
        return image.config_digest
    from lockbuild.oci.load import ensure_loaded

    name = project.manifest.toolchain.name
    return ensure_loaded(image, environment, _engine(workspace), workspace.report, name=name)


def _engine(workspace: Workspace) -> EngineEndpoint:
    from lockbuild.transport.engine import find_engine

    endpoint = find_engine(workspace.environ)
    if endpoint is None:
        raise SandboxError(
            "the engine does not answer any more", hint="start it again, or use --backend bubblewrap"
        )
    return endpoint
