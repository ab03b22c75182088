"""The project manifest (``lockbuild.toml``) and the toolchain manifest (``toolchains/*.toml``).

`Manifest` is the two together: what a lock is made from. Format: ``docs/formats.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lockbuild.model.base import FileModel
from lockbuild.model.claims import ClaimedOutputs
from lockbuild.model.lock import Claim, InputValue
from lockbuild.model.overrides import Overrides
from lockbuild.model.platform import Platform
from lockbuild.model.requests import (
    BaseImage,
    DawnRequest,
    DebianBase,
    EmsdkTool,
    Environment,
    GitRequest,
    ImageRoot,
    MountPath,
    Name,
    OnnxruntimeDepsRequest,
    PortTool,
    RelativePath,
    RelativePattern,
    Request,
    SourceRequest,
    ToolRequest,
)

SCHEMA = 1
"""The schema number of manifests that this version writes and reads."""

Steps = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Derive(FileModel):
    """``[derive.NAME]``: a tool built once, in the locked environment, from locked inputs."""

    steps: Steps
    """Shell commands, each run by ``/bin/sh -e -c`` in ``$BUILD``; what they leave in ``$OUT`` is the tool."""
    extra_steps: list[Annotated[str, Field(min_length=1)]] = []
    """Shell commands after those of ``steps``: for a project or toolchain that adds to what another one derives."""
    env: Environment = {}
    """Variables while deriving; ``$OUT`` and ``$BUILD`` are replaced in values."""
    exports: Environment = {}
    """Variables for every process in the environment; ``$OUT`` in a value is the mount point."""
    mount: MountPath | None = None
    """Where it stands, also while it is made (``$OUT``): a path below /opt; by default ``/opt/NAME``."""
    needs: list[Name] = []
    """Derived tools to have while making this one; they stand above it in the file."""

    @property
    def all_steps(self) -> tuple[str, ...]:
        """What runs, in order."""
        return (*self.steps, *self.extra_steps)


class Base(FileModel):
    """``[base]``: the root file system."""

    debian: DebianBase | None = None
    """A Debian root; beside an image the packages to have on top of that."""
    image: BaseImage | None = None
    """An image of a registry."""

    @model_validator(mode="after")
    def _something(self) -> Base:
        if self.debian is None and self.image is None:
            raise ValueError("needs debian or image")
        return self

    def request(self) -> Request:
        """What is asked for under the key ``base``."""
        if self.image is not None:
            return ImageRoot(image=self.image, debian=self.debian)
        assert self.debian is not None, "one of both is there"
        return self.debian


class Toolchain(FileModel):
    """A toolchain manifest; what it ``extends`` is part of it already."""

    schema_: Literal[1]
    """Version of this format."""
    name: Name
    """Name of the toolchain; the image's title."""
    extends: Annotated[str, Field(min_length=1)] | None = None
    """Another toolchain (its shipped name, or the path of its manifest) that this one changes."""
    platforms: Annotated[list[Platform], Field(min_length=1)]
    """Platforms that a lock is made for."""
    base: Base
    """The root file system."""
    tools: dict[Name, ToolRequest] = {}
    """Tools by name, mounted below /opt; ``bin`` of each is on PATH."""
    derive: dict[Name, Derive] = {}
    """Tools that are built once, by name, in order."""
    claims: dict[Name, ClaimedOutputs] = {}
    """What others published of outputs, by target."""

    @model_validator(mode="after")
    def _consistent(self) -> Toolchain:
        problems: list[str] = []
        mounts: dict[str, str] = {}
        for key, mount in self.mounts():
            for other, taken in mounts.items():
                if mount == taken:
                    problems.append(f"{key}.mount: {mount} is also the mount of {other}")
                elif f"{mount}/".startswith(f"{taken}/") or f"{taken}/".startswith(f"{mount}/"):
                    problems.append(f"{key}.mount: {mount} overlaps {taken}, the mount of {other}")
            mounts[key] = mount
        earlier: set[str] = set()
        for name, derive in self.derive.items():
            problems.extend(
                f"derive.{name}.needs: {need!r} is not a derive that stands above it"
                for need in derive.needs
                if need not in earlier
            )
            earlier.add(name)
        for name, tool in self.tools.items():
            problems.extend(self.misdirected(f"tools.{name}", tool))
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def misdirected(self, key: str, request: Request) -> Iterator[str]:
        """What is wrong with the tool that a request says it is resolved after."""
        if not isinstance(request, PortTool | DawnRequest):
            return
        port = isinstance(request, PortTool)
        kind = "an Emscripten SDK" if port else "an Emscripten port or SDK"
        wanted = EmsdkTool if port else PortTool | EmsdkTool
        followed = request.followed(self.tools)
        if len(followed) > 1:
            sdks = all(isinstance(self.tools[name], EmsdkTool) for name in followed)
            several = "Emscripten SDKs" if sdks else "ports emdawnwebgpu"
            yield f"{key}.of: is required where there are several {several}: {', '.join(followed)}"
            return
        fitting = [name for name, tool in self.tools.items() if isinstance(tool, wanted)]
        there = f" (there is: {', '.join(fitting)})" if fitting else ""
        for named in followed:
            if named not in self.tools:
                yield f"{key}.of: there is no tool {named!r}; name {kind}{there}"
            elif named not in fitting:
                yield f"{key}.of: the tool {named!r} is not {kind}{there}"

    def mounts(self) -> Iterator[tuple[str, str]]:
        """Each tool's key (``tools.cmake``) with the path where it is mounted."""
        for name, tool in self.tools.items():
            yield f"tools.{name}", tool.place(name)
        for name, derive in self.derive.items():
            yield f"derive.{name}", derive.mount or f"/opt/{name}"


class Target(FileModel):
    """``[targets.NAME]``: what to build. Steps see ``$SOURCE`` (read-only) and ``$BUILD``."""

    source: RelativePath = "."
    """Directory of the source, relative to the project, mounted read-only; git's ignore rules apply."""
    steps: Steps
    """Shell commands, each run by ``/bin/sh -e -c`` in ``$BUILD``."""
    outputs: Annotated[list[RelativePattern], Field(min_length=1)]
    """Files and directories to keep, relative to ``$BUILD``, with git's wildcards; each must match something."""
    env: Environment = {}
    """Variables of the steps; ``$SOURCE`` and ``$BUILD`` are replaced in values. EMCC_CFLAGS follows the path maps."""
    sources: list[Name] | None = None
    """Which of ``[sources]`` it sees; by default all."""


class Project(FileModel):
    """``[project]``."""

    name: Name
    """Name of the project."""
    toolchain: Annotated[str, Field(min_length=1)]
    """Name of a shipped toolchain, or the path of a toolchain manifest (with a ``/``, or ending in .toml)."""


class ProjectFile(FileModel):
    """A project manifest."""

    schema_: Literal[1] = 1
    """Version of this format."""
    project: Project
    """The project itself."""
    targets: Annotated[dict[Name, Target], Field(min_length=1)]
    """What to build, by name."""
    sources: dict[Name, SourceRequest] = {}
    """Further locked inputs, mounted read-only at ``/build/sources/NAME``."""
    overrides: Overrides = Overrides()
    """What of the toolchain this project has otherwise."""
    claims: dict[Name, ClaimedOutputs] = {}
    """What others published of outputs, by target; instead of what the toolchain has of that target."""

    @model_validator(mode="after")
    def _consistent(self) -> ProjectFile:
        problems = [
            f"targets.{name}.sources: {source!r} is not in [sources]"
            for name, target in self.targets.items()
            for source in target.sources or ()
            if source not in self.sources
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self


class Manifest(FileModel):
    """A project and its toolchain, read and checked."""

    project: ProjectFile
    toolchain: Toolchain

    def requests(self) -> dict[str, Request]:
        """Everything that is asked for and resolved, by its key, each after those that it needs.

        ``base`` comes first; among those that could come next, the order of the file decides.
        """
        asked: dict[str, Request] = {"base": self.toolchain.base.request()}
        asked.update((f"tools.{name}", tool) for name, tool in self.toolchain.tools.items())
        asked.update((f"sources.{name}", source) for name, source in self.project.sources.items())
        ordered: dict[str, Request] = {}

        def put(key: str, waiting: tuple[str, ...]) -> None:
            if key in waiting:
                round_ = " -> ".join((*waiting[waiting.index(key) :], key))
                raise ValueError(f"{key}: needs itself: {round_}")
            if key in ordered:
                return
            for need in self.needs(asked[key]):
                if need not in asked:
                    raise ValueError(f"{key}: needs {need}, which the manifest does not have")
                put(need, (*waiting, key))
            ordered[key] = asked[key]

        for key in asked:
            put(key, ())
        return ordered

    def needs(self, request: Request) -> tuple[str, ...]:
        """The keys of what ``request`` is resolved after."""
        return request.needs(self.toolchain.tools)

    def claims(self) -> dict[str, Claim]:
        """What others published, by target: what the project says, else the toolchain."""
        said = {**self.toolchain.claims, **self.project.claims}
        return {name: outputs.claim() for name, outputs in sorted(said.items())}

    def misdirected(self) -> Iterator[str]:
        """What is wrong with the references of project sources to tools, as ``key: message``."""
        sources = self.project.sources
        for name, source in sources.items():
            yield from self.toolchain.misdirected(f"sources.{name}", source)
            of = source.of if isinstance(source, OnnxruntimeDepsRequest) else None
            if of is not None and not isinstance(sources.get(of), GitRequest):
                fitting = [key for key, other in sources.items() if isinstance(other, GitRequest)]
                there = f" (there is: {', '.join(fitting)})" if fitting else ""
                yield f'sources.{name}.of: {of!r} is no source with from = "git"{there}'

    def inputs(self) -> dict[str, InputValue]:
        """Everything that decides what a lock holds, as dotted key -> value, sorted.

        Targets are not among them: a changed step changes the input digest of a build, not the lock. Nor are claims,
        which the lock has as they are. Of keys that are extended or overridden the result counts. A key that has its
        default is left out: a later version of lockbuild with more optional keys finds the same inputs.
        """
        flat: dict[str, InputValue] = {}

        def walk(prefix: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, inner in value.items():
                    walk(f"{prefix}.{key}" if prefix else key, inner)
            elif value is not None:
                flat[prefix] = value

        walk("", _said(self.toolchain, exclude={"schema_", "extends", "claims"}))
        walk("sources", {name: _said(source) for name, source in self.project.sources.items()})
        return dict(sorted(flat.items()))


def _said(model: FileModel, exclude: set[str] | None = None) -> dict[str, Any]:
    """What a model says beyond its defaults, with the file's keys and TOML's types."""
    return model.model_dump(mode="json", by_alias=True, exclude=exclude, exclude_defaults=True)
