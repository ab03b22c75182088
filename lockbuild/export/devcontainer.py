"""A development container (containers.dev, "Dev Container metadata reference") in an environment's image."""

from __future__ import annotations

import json
from typing import Any

from lockbuild.export.subject import TMPFS, Subject, about_image, origin
from lockbuild.model.environment import BUILD_DIR, HOME_DIR, SOURCE_DIR, TMP_DIR

_CMAKE_TOOLS = {
    "vscode": {
        "extensions": ["ms-vscode.cmake-tools"],
        "settings": {"cmake.useCMakePresets": "always"},
    }
}


def render(subject: Subject) -> str:
    """The project is mounted where builds see it. Editors install themselves into the home directory, which is new
    with each start of the container, as the build directory is."""
    value: dict[str, Any] = {
        "name": subject.project,
        "image": subject.image.reference,
        "workspaceMount": f"source=${{localWorkspaceFolder}},target={SOURCE_DIR},type=bind",
        "workspaceFolder": SOURCE_DIR,
        "remoteUser": "build",
        "containerEnv": dict(sorted(subject.added.items())),
        # In the image everything belongs to root; any user may write to these, whichever the editor makes of ours.
        "runArgs": [f"--tmpfs={place}:{TMPFS}" for place in (BUILD_DIR, HOME_DIR, TMP_DIR)],
        "customizations": {
            "lockbuild": {"about": [*origin("devcontainer"), *about_image(subject)]},
            **(_CMAKE_TOOLS if subject.cmake is not None else {}),
        },
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
