"""What is exported, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockbuild.model.digest import Digest
from lockbuild.model.environment import GID, UID


@dataclass(frozen=True, slots=True)
class Image:
    """An image as a container engine is told it. ``reference`` is pinned by digest, or, where ``local``, the tag that
    lockbuild gives an image in an engine. ``identity`` is the image ID."""

    reference: str
    identity: Digest
    local: bool


@dataclass(frozen=True, slots=True)
class CMake:
    """What of an environment CMake is told: paths in it; None where it does not have that."""

    toolchain_file: str | None
    ninja: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """An environment: ``name`` is its toolchain's, ``variables`` are what every process in it sees, and ``added`` what
    builds see beside that; ``sources`` the project's further sources, which no image has."""

    name: str
    project: str
    image: Image
    variables: Mapping[str, str]
    added: Mapping[str, str]
    sources: tuple[str, ...]
    cmake: CMake | None


TMPFS = f"exec,uid={UID},gid={GID},mode=1777"
"""Options of directories in memory that any user may write to. runc before 1.2 gives one in the place of a directory
that is there the mode of that, so the build user owns it."""


def origin(command: str) -> list[str]:
    """Lines that say where an exported file comes from."""
    return [
        f"Made by `lockbuild export {command}` from lockbuild.lock; do not edit.",
        f"`lockbuild export {command} --check` says whether it is current.",
    ]


def about_image(subject: Subject) -> list[str]:
    """Lines that say what the image is, and what has to be done for it."""
    lines = [f"Image ID {subject.image.identity}, the environment {subject.name}."]
    if subject.image.local:
        lines += [
            "It is in no registry: `lockbuild image load` brings it into the engine of this machine. For others push it"
            " (`lockbuild image push REF`), and export with --image REF.",
        ]
    if subject.sources:
        lines.append(
            "Not in the image: the project's further sources (" + ", ".join(subject.sources) + "), which"
            " `lockbuild store path sources.NAME` finds."
        )
    return lines
