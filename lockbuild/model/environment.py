"""An environment: an ordered list of trees with mount points, and what a process in it sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform

BUILD_ROOT = "/build"
SOURCE_DIR = "/build/source"
"""Where a target's source tree is mounted, read-only ($SOURCE)."""
SOURCES_DIR = "/build/sources"
"""Below it stand the project's further locked inputs, read-only."""
BUILD_DIR = "/build/build"
"""Where a target is built ($BUILD), writable."""
HOME_DIR = "/build/home"
"""HOME, writable, empty at the start."""
TMP_DIR = "/tmp"  # noqa: S108  a path inside the sandbox
UID = GID = 1000
"""The unprivileged user and group that every build runs as."""
HOSTNAME = "lockbuild"


@dataclass(frozen=True, slots=True)
class MountedTree:
    """A materialised tree in an environment.

    A tree's paths are rooted at ``/``: a tool mounted at /opt/cmake has the entries ``opt/``,
    ``opt/cmake/``, … So its digest is the diff ID of the image layer that it becomes, and ``root``
    (the unpacked tree in the store) has the mounted directory at ``root / mount[1:]``.
    """

    name: str
    digest: Digest
    mount: str
    root: Path


@dataclass(frozen=True, slots=True)
class Environment:
    """The base first (mounted at ``/``), then the tools. ``variables`` are what every process sees."""

    platform: Platform
    trees: tuple[MountedTree, ...]
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadOnlyInput:
    """A directory of the store (a tree rooted at itself) that a sandbox shows read-only at ``mount``."""

    directory: Path
    mount: str


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything that a sandbox shows to the processes in it. The same for every back-end.

    ``writable`` directories start empty, belong to the build user and live as long as the session;
    /tmp and HOME are among them. No network but a loopback interface, whatever the spec.
    ``image`` is the image ID that has the environment's trees as layers, for back-ends that run images.
    """

    environment: Environment
    inputs: tuple[ReadOnlyInput, ...] = ()
    writable: tuple[str, ...] = (BUILD_DIR, HOME_DIR, TMP_DIR)
    variables: dict[str, str] = field(default_factory=dict)
    image: Digest | None = None
