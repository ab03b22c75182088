"""The formats by the names that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lockbuild.export import cmake_presets, compose, devcontainer, dockerfile
from lockbuild.export.subject import Subject


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format that is one file: where projects have it, and what is in it."""

    path: str
    render: Callable[[Subject], str]


FILES = {
    "dockerfile": FileFormat("Dockerfile", dockerfile.render),
    "devcontainer": FileFormat(".devcontainer/devcontainer.json", devcontainer.render),
    "compose": FileFormat("compose.yaml", compose.render),
    "cmake-presets": FileFormat("CMakePresets.json", cmake_presets.render),
}
"""All but ``env``, which has formats of its own (`lockbuild.export.variables`)."""
