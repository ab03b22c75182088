"""The lock: every byte that takes part, by SHA-256. Format: ``docs/formats.md``.

A lock names *trees* (the base root, tools, derived tools, project sources) and *sources* (files
to fetch). A tree's ``name`` is its key in the manifest (``base``, ``tools.cmake``,
``derive.emscripten-libraries``, ``sources.zlib``); a source lists the trees it is part of. Nothing
in a lock names a host of a registry, a path of a machine, a credential or the time of locking.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, model_validator

from lockbuild.model.base import FileModel
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform

SCHEMA = 1
"""The schema number of locks that this version writes; it refuses any other."""

AnyPlatform = Literal["any"]
InputValue = str | int | bool | list[str]
Unpack = Literal[
    "archive",
    "debian-root",
    "debian-tool",
    "derive",
    "emsdk",
    "files",
    "git",
    "npm",
    "oci-root",
    "path",
    "port",
    "wheels",
]


class Source(FileModel):
    """One file to fetch, or one commit of a repository, whose file is the canonical tar of its tree.

    One of ``path`` (below its registry) and ``url`` says where it is. At least one of ``sha256``, ``sha512`` and
    ``commit`` binds its bytes; where it is not ``sha256``, materialising adds that.
    """

    purl: str
    """Its identity: a package URL."""
    path: str | None = None
    """For ``pkg:deb`` the path below the archive's root; for ``pkg:pypi`` the file name on the index's page."""
    url: str | None = None
    """For ``pkg:generic`` where it is; for ``pkg:oci`` ``oci://REGISTRY/REPOSITORY@sha256:…``."""
    size: Annotated[int, Field(ge=0)] | None = None
    """Bytes, where they are known before it is fetched."""
    sha256: Digest | None = None
    """SHA-256 of the file."""
    sha512: Annotated[str, Field(pattern="^[0-9a-f]{128}$")] | None = None
    """SHA-512 of the file, where its publisher gives that."""
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    """Git object id of the commit."""
    at: str | None = None
    """Directory of the tree that it fills (a submodule), where that is not the whole. No tree of git has one that is
    called ``.git``: there stands what git itself knows of the commit."""
    exclude: list[str] | None = None
    """What of a commit's tree is left out: paths relative to it, sorted."""
    patch: Annotated[int, Field(ge=1)] | None = None
    """Its turn among the patches of its tree, where it is one."""
    trust: Literal["first-use"] | None = None
    """There where nobody publishes its digest: what came when it was locked was taken."""
    trees: list[str]
    """Ids (``platform:name``) of the trees that it is part of, sorted."""

    @model_validator(mode="after")
    def _bound(self) -> Source:
        if self.sha256 is None and self.sha512 is None and self.commit is None:
            raise ValueError("one of sha256, sha512 and commit is required")
        return self

    @property
    def identity(self) -> Digest:
        """What binds it from the start, as one digest: of the commit or the SHA-512, else the SHA-256 itself.

        It stays the same when materialising adds the SHA-256, so that recipes do, too.
        """
        if self.commit is not None:
            kind = "git-directory" if self.is_git_directory else "git"
            return Digest.of("\0".join([f"{kind}:{self.commit}", *(self.exclude or [])]).encode())
        if self.sha512 is not None:
            return Digest.of(f"sha512:{self.sha512}".encode())
        assert self.sha256 is not None
        return self.sha256

    @property
    def place(self) -> tuple[str, str, str, int, tuple[str, ...]]:
        """What no two sources of a lock have in common; they stand in its order."""
        return self.purl, self.location, self.at or "", self.patch or 0, tuple(self.exclude or ())

    @property
    def is_git_directory(self) -> bool:
        """Whether it is what git knows of its commit, and not the tree of that."""
        return self.commit is not None and (self.at or "").rpartition("/")[2] == ".git"

    @property
    def is_image_manifest(self) -> bool:
        """Whether it is the manifest of an image: its configuration and layers say no architecture."""
        return self.purl.startswith("pkg:oci/") and "arch=" in self.purl.partition("?")[2]

    @property
    def location(self) -> str:
        """For people: where it is, relative to its registry or absolute."""
        return self.path or self.url or self.purl


class LockedTree(FileModel):
    """A tree to materialise from its sources."""

    name: str
    """Its key in the manifest: ``base``, ``tools.NAME``, ``derive.NAME``, ``sources.NAME``.

    Ports that a port needs stand beside it, as trees of their own: ``tools.NAME+PORT``.
    """
    platform: Platform | AnyPlatform
    """What it is for; ``any`` where it is the same on all."""
    unpack: Unpack
    """How its sources become a tree."""
    mount: str
    """Where it stands in the environment; project sources stand below /build/sources."""
    strip: Annotated[int, Field(ge=0)] = 0
    """Leading path components that are dropped from an archive's entries."""
    parameters: dict[str, str] = {}
    """What else decides how its sources become the tree, by the names that its kind gives them."""
    pins: dict[str, str] = {}
    """What it is, for people: the versions and commits behind it. Decides nothing."""
    exports: dict[str, str] = {}
    """Variables for every process in the environment; ``$OUT`` is the mount point."""
    digest: Digest | None = None
    """Its tree digest, once it was materialised; binds every later sync."""

    def belongs_to(self, key: str) -> bool:
        """Whether it is the tree that the manifest asks for under ``key``, or a port that this one needs."""
        return self.name.partition("+")[0] == key

    @property
    def id(self) -> str:
        """How sources refer to it: ``linux/amd64:tools.cmake``."""
        return f"{self.platform}:{self.name}"


class Suite(FileModel):
    """The signed index that Debian packages were resolved against."""

    name: str
    """The suite as the manifest names it."""
    codename: str
    """Its codename, which the package URLs have as ``distro``."""
    date: str
    """The index's Date: RFC 3339, UTC."""
    valid_until: str | None = None
    """The index's Valid-Until, where it has one."""
    expired: Literal["accepted"] | None = None
    """There where the index was past its Valid-Until and that was accepted."""
    snapshot: str | None = None
    """The snapshot time that the manifest asks for, if it does."""
    inrelease: Digest
    """SHA-256 of the InRelease file."""


class LockedLayers(FileModel):
    """The same image with compressed layers: another manifest, the same configuration."""

    encoder: str
    """What compressed them: library, version and parameters. Only the same one makes the same bytes."""
    manifest: Digest
    """OCI manifest digest."""
    size: Annotated[int, Field(ge=1)]
    """Bytes of the manifest."""


class LockedEnvironment(FileModel):
    """The image of one platform's environment."""

    image: Digest
    """OCI config digest: the image ID that a classic Docker store shows."""
    manifest: Digest
    """OCI manifest digest of the image with layers that are not compressed: the image ID that a containerd store
    shows."""
    size: Annotated[int, Field(ge=1)] | None = None
    """Bytes of that manifest."""
    layers: dict[Literal["gzip", "zstd"], LockedLayers] = {}
    """By compression, where that was asked for: the image as registries and bundles have it."""


class OutputFile(FileModel):
    """One recorded output."""

    path: str
    """Path below the output directory."""
    size: Annotated[int, Field(ge=0)]
    """Bytes."""
    sha256: Digest
    """SHA-256 of the file."""


class RecordedOutputs(FileModel):
    """What a target built to."""

    input: Digest
    """Digest of the plan that was run (the input digest)."""
    platform: Platform
    """The platform that it ran on."""
    files: list[OutputFile]
    """Every output, sorted by path."""


class Claim(FileModel):
    """What somebody else published of a target's outputs. Not what lockbuild saw: that is `RecordedOutputs`."""

    by: str
    """Who says so, and where: a URL or a name with a version."""
    files: list[OutputFile]
    """The files, sorted by path."""


class ManifestRecord(FileModel):
    """What the lock was made from."""

    digest: Digest
    """SHA-256 of the canonical JSON of ``inputs``."""
    inputs: dict[str, InputValue]
    """Every key of the manifest and its toolchain that decides the lock, dotted (`Manifest.inputs`)."""


class Lock(FileModel):
    """A whole lock."""

    schema_: Literal[1] = 1
    """Version of this format."""
    manifest: ManifestRecord
    """What the lock was made from."""
    suites: list[Suite] = []
    """The signed Debian indexes behind it."""
    trees: list[LockedTree] = []
    """Everything that stands in the environment or is a source of the project."""
    sources: list[Source] = []
    """Every file that takes part."""
    environments: dict[str, LockedEnvironment] = {}
    """By platform, once materialised: the image."""
    claims: dict[str, Claim] = {}
    """What others published, by target."""
    outputs: dict[str, RecordedOutputs] = {}
    """By target, once recorded: what it built to."""

    def tree(self, name: str, platform: Platform) -> LockedTree:
        """The tree of that name for ``platform`` (or for any); KeyError where the lock has none."""
        for tree in self.trees:
            if tree.name == name and tree.platform in (platform, "any"):
                return tree
        raise KeyError(name)

    def sources_of(self, tree: LockedTree) -> list[Source]:
        """The tree's sources in the lock's order."""
        return [source for source in self.sources if tree.id in source.trees]

    def environment_digest(self, platform: Platform) -> Digest:
        """The digest of all that the lock says of the platform's environment, but for what materialising adds: what
        its trees are made from, and how. The image has it as a label.

        SHA-256 of canonical JSON (docs/formats.md, "Image").
        """
        trees = [
            {
                **tree.model_dump(
                    mode="json", include={"name", "unpack", "mount", "strip", "parameters", "exports"}
                ),
                "sources": [
                    [source.purl, str(source.identity), source.location, source.at, source.patch]
                    for source in sorted(self.sources_of(tree), key=lambda source: source.place)
                ],
            }
            for tree in sorted(self.trees, key=lambda tree: tree.name)
            if tree.platform in (platform, "any") and not tree.name.startswith("sources.")
        ]
        derive = {key: value for key, value in self.manifest.inputs.items() if key.startswith("derive.")}
        value = {"derive": derive, "platform": str(platform), "trees": trees}
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return Digest.of(text.encode("utf-8", "surrogatepass"))
