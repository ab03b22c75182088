"""The lock: every byte that takes part, by SHA-256. Format: ``docs/formats.md``.

A lock names *trees* (the base root, tools, derived tools, project sources) and *sources* (files
to fetch). A tree's ``name`` is its key in the manifest (``base``, ``tools.cmake``,
``derive.emscripten-libraries``, ``sources.zlib``); a source lists the trees it is part of. Nothing
in a lock names a host of a registry, a path of a machine, a credential or the time of locking.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform

SCHEMA = 1
"""The schema number of locks that this version writes; it refuses any other."""

AnyPlatform = Literal["any"]
InputValue = str | int | bool | list[str]
Unpack = Literal["debian-root", "wheels", "archive", "path", "derive"]


class Source(FileModel):
    """One file to fetch. Exactly one of ``path`` (below its registry) and ``url`` says where it is.

    ``purl`` is its identity (package URL specification). For ``pkg:deb`` ``path`` is the pool path
    below the archive's root; for ``pkg:pypi`` the file name in the project's index page.
    """

    purl: str
    path: str | None = None
    url: str | None = None
    size: Annotated[int, Field(ge=0)] | None = None
    sha256: Digest
    trees: list[str]

    @property
    def location(self) -> str:
        """For people: where it is, relative to its registry or absolute."""
        return self.path or self.url or self.purl


class LockedTree(FileModel):
    """A tree to materialise from its sources.

    ``unpack`` says how its sources become a tree; ``strip`` leading path components are dropped for
    an archive. ``mount`` is where it stands in the environment (project sources stand below
    /build/sources). ``digest`` is there once it was materialised, and then binds every later sync.
    """

    name: str
    platform: Platform | AnyPlatform
    unpack: Unpack
    mount: str
    strip: Annotated[int, Field(ge=0)] = 0
    exports: dict[str, str] = {}
    digest: Digest | None = None

    @property
    def id(self) -> str:
        """How sources refer to it: ``linux/amd64:tools.cmake``."""
        return f"{self.platform}:{self.name}"


class Suite(FileModel):
    """The signed index that Debian packages were resolved against.

    ``expired`` is there where the index was past its Valid-Until and that was accepted.
    """

    name: str
    codename: str
    date: str
    valid_until: str | None = None
    expired: Literal["accepted"] | None = None
    snapshot: str | None = None
    inrelease: Digest


class LockedEnvironment(FileModel):
    """The image of one platform's environment: ``image`` is the OCI config digest (the image ID that a
    classic Docker store shows), ``manifest`` the OCI manifest digest (what a containerd store shows)."""

    image: Digest
    manifest: Digest


class OutputFile(FileModel):
    """One recorded output: ``path`` below the output directory, ``size`` in bytes."""

    path: str
    size: Annotated[int, Field(ge=0)]
    sha256: Digest


class RecordedOutputs(FileModel):
    """What a target built to: the ``input`` digest of the plan and the ``platform`` it ran on."""

    input: Digest
    platform: Platform
    files: list[OutputFile]


class ManifestRecord(FileModel):
    """What the lock was made from: ``inputs`` is `Manifest.inputs`, ``digest`` that of its canonical JSON."""

    digest: Digest
    inputs: dict[str, InputValue]


class Lock(FileModel):
    """A whole lock."""

    schema_: Literal[1] = 1
    manifest: ManifestRecord
    suites: list[Suite] = []
    trees: list[LockedTree] = []
    sources: list[Source] = []
    environments: dict[str, LockedEnvironment] = {}
    outputs: dict[str, RecordedOutputs] = {}

    def tree(self, name: str, platform: Platform) -> LockedTree:
        """The tree of that name for ``platform`` (or for any); KeyError where the lock has none."""
        for tree in self.trees:
            if tree.name == name and tree.platform in (platform, "any"):
                return tree
        raise KeyError(name)

    def sources_of(self, tree: LockedTree) -> list[Source]:
        """The tree's sources in the lock's order."""
        return [source for source in self.sources if tree.id in source.trees]
