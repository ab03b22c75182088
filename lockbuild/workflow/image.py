"""The image of an environment, and bringing it into an engine where the back-end is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.workflow.project import Project
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.oci.image import Image


def environment_image(project: Project, environment: Environment) -> Image:
    """The image of an environment: a pure function of its trees and the toolchain's name."""
    from lockbuild.oci.image import compute

    return compute(environment, labels={"org.opencontainers.image.title": project.manifest.toolchain.name})


def load_image(workspace: Workspace, project: Project, environment: Environment, image: Image) -> Digest:
    """Bring the image into the engine, where the back-end is one; the ID to run it by."""
    if workspace.backend.name != "docker":
        return image.config_digest
    from lockbuild.oci.load import ensure_loaded
    from lockbuild.transport.engine import find_engine

    endpoint = find_engine(workspace.environ)
    assert endpoint is not None, "the back-end was chosen because an engine answered"
    name = project.manifest.toolchain.name
    return ensure_loaded(image, environment, endpoint, workspace.report, name=name)
