"""A development container (containers.dev, "Dev Container metadata reference") in an environment's image."""

from __future__ import annotations

import json
import re
from typing import Any

from lockbuild.errors import UsageError
from lockbuild.export.subject import TMPFS, Subject, about_image, origin
from lockbuild.model.environment import BUILD_DIR, HOME_DIR, SOURCE_DIR, TMP_DIR

_CMAKE_TOOLS = {
    "vscode": {
        "extensions": ["ms-vscode.cmake-tools"],
        "settings": {"cmake.useCMakePresets": "always"},
    }
}

_REFERENCE = re.compile(
    r"\$\{(?:env|localEnv|containerEnv|(?:local|container)WorkspaceFolder(?:Basename)?|devcontainerId)(?::[^}]*)?\}"
)


def render(subject: Subject) -> str:
    """The project is mounted where builds see it. Editors install themselves into the home directory, which is new
    with each start of the container, as the build directory is."""
    value: dict[str, Any] = {
        "name": subject.project,
        "image": subject.image.reference,
        "workspaceMount": f"source=${{localWorkspaceFolder}},target={SOURCE_DIR},type=bind",
        "workspaceFolder": SOURCE_DIR,
        "remoteUser": "build",
        "containerEnv": {name: _literal(name, value) for name, value in sorted(subject.added.items())},
        # In the image everything belongs to root; any user may write to these, whichever the editor makes of ours.
        "runArgs": [f"--tmpfs={place}:{TMPFS}" for place in (BUILD_DIR, HOME_DIR, TMP_DIR)],
        "customizations": {
            "lockbuild": {"about": [*origin("devcontainer"), *about_image(subject)]},
            **(_CMAKE_TOOLS if subject.cmake is not None else {}),
        },
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _literal(name: str, value: str) -> str:
    """The format replaces ``${localEnv:NAME}`` and its like, and has no way to write one that stays."""
    found = _REFERENCE.search(value)
    if found is not None:
        raise UsageError(
            f"its value has {found[0]!r} in it, which a development container would take for a variable of its own",
            on=f"variable {name}",
            hint="export without --target",
        )
    return value
