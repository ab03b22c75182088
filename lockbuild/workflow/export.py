"""``lockbuild export``: the environment of a lock in the files that editors and CI read, pinned by digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.archive.rootfs import View
from lockbuild.errors import IntegrityError, UsageError, storage_error
from lockbuild.events import Note
from lockbuild.export.subject import CMake, Image, Subject
from lockbuild.model.digest import Digest
from lockbuild.model.environment import BUILD_DIR, SOURCE_DIR, Environment
from lockbuild.model.image import read_artefact, read_index
from lockbuild.model.lock import Lock, LockedEnvironment
from lockbuild.model.platform import Platform
from lockbuild.model.reference import Reference
from lockbuild.reading import read_regular
from lockbuild.workflow.place import is_written_into
from lockbuild.workflow.project import load_lock, load_project, require_current
from lockbuild.workflow.workspace import ProjectPaths, Workspace

if TYPE_CHECKING:
    from lockbuild.export.variables import Format
    from lockbuild.workflow.project import Project
    from lockbuild.workflow.sync import Synced

_EMSCRIPTEN_CMAKE = "cmake/Modules/Platform/Emscripten.cmake"
_EMSCRIPTEN_PLACES = ("/usr/share/emscripten", "/usr/lib/emscripten")
"""Where Debian has it; a tool has it at its mount, or below as emsdk does."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a file that was exported before is what would be exported now; ``there`` is whether it exists."""

    path: Path
    there: bool
    current: bool


def export_text(
    workspace: Workspace,
    paths: ProjectPaths,
    kind: str,
    *,
    image: str | None,
    target: str | None,
    format_: Format = "shell",
) -> str:
    """The text of the format ``kind`` for the project's environment on this platform.

    ``image`` is a reference to it in a registry, which is asked for its digest; None means the image of this
    machine's engine. With ``target`` the variables are those that this target is built with. IntegrityError where
    the registry has another image there.
    """
    from lockbuild.export import formats, variables
    from lockbuild.workflow.sync import sync

    project = load_project(paths)
    lock = load_lock(paths)
    require_current(project, lock)
    wanted = None if image is None else _reference(image)
    synced = sync(workspace, project, lock, workspace.platform, load=False)
    subject = Subject(
        name=project.manifest.toolchain.name,
        project=project.manifest.project.project.name,
        image=_image(workspace, project, lock, synced, wanted),
        variables=synced.environment.variables,
        added=_added(project, synced, target),
        sources=tuple(sorted(synced.sources)),
        cmake=_cmake(synced.environment),
    )
    if kind == "env":
        return variables.render(subject, format_)
    return formats.FILES[kind].render(subject)


def check_file(path: Path, text: str) -> Checked:
    """Compare ``text`` with what the file has; UsageError where it cannot be read."""
    try:
        found = read_regular(path)
    except FileNotFoundError:
        return Checked(path, there=False, current=False)
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", on=str(path)) from None
    return Checked(path, there=True, current=found == text.encode())


def write_file(path: Path, text: str) -> bool:
    """Write ``text`` as a whole, with the directories that are missing; False where the file has it already. A device
    or pipe is written into; UsageError for what is no file otherwise."""
    from lockbuild.workflow.project import replace_file

    try:
        if path.is_file() and read_regular(path) == text.encode():
            return False
        if is_written_into(path):
            with path.open("wb") as into:
                into.write(text.encode())
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise storage_error(
            error, "it cannot be written", on=str(path), instead="or name another file with -o"
        ) from error
    return True


def _reference(text: str) -> Reference:
    try:
        return Reference.parse(text)
    except ValueError as error:
        raise UsageError(f"--image: {error}") from None


def _image(
    workspace: Workspace, project: Project, lock: Lock, synced: Synced, wanted: Reference | None
) -> Image:
    from lockbuild.oci.load import engine_tag

    identity = synced.image.image
    if wanted is None:
        return Image(engine_tag(project.manifest.toolchain.name, identity), identity, local=True)
    environments = {**lock.environments, str(workspace.platform): synced.image}
    if workspace.offline:
        return Image(str(_offline(workspace, wanted, environments)), identity, local=False)
    manifest = workspace.registries.manifest(wanted)
    found = {}
    if "manifests" in manifest.value:
        index = read_index(manifest.body, on=str(wanted))
        for platform in environments:
            entry = index.entry(Platform.parse(platform))
            if entry is not None:
                found[platform] = workspace.registries.manifest(wanted.at(entry.digest))
    else:
        found = {str(workspace.platform): manifest}
    if str(workspace.platform) not in found:
        raise IntegrityError(
            f"the registry has no image for {workspace.platform} there",
            on=str(wanted),
            hint="push it: `lockbuild image push`",
        )
    for platform, each in found.items():
        config = read_artefact(each.body, on=f"{wanted} ({platform})").config.digest
        if config != environments[platform].image:
            raise IntegrityError(
                f"the registry has another image there: {config}, and the lock has {environments[platform].image}",
                on=f"{wanted} ({platform})",
                hint="push the image of this lock (`lockbuild image push`), or export from the lock of that one",
            )
    return Image(str(wanted.pinned(manifest.digest)), identity, local=False)


def _offline(
    workspace: Workspace, wanted: Reference, environments: Mapping[str, LockedEnvironment]
) -> Reference:
    if wanted.digest is None:
        raise UsageError(
            "which image the tag means can only be asked of the registry, and the network must not be used",
            on=str(wanted),
            hint="name it with its digest (REGISTRY/REPOSITORY@sha256:…), or run without --offline",
        )
    known = {
        digest
        for each in environments.values()
        for digest in (each.manifest, *(layers.manifest for layers in each.layers.values()))
    }
    if wanted.digest not in known:
        workspace.report(
            Note(f"{wanted}: the lock does not record that digest, and the registry is not asked", "warning")
        )
    return wanted


def _added(project: Project, synced: Synced, target: str | None) -> dict[str, str]:
    """The variables that builds see beside those of the environment."""
    if target is None:
        return {"BUILD": BUILD_DIR, "SOURCE": SOURCE_DIR}
    from lockbuild.build.plan import plan_target
    from lockbuild.workflow.ready import targets
    from lockbuild.workflow.session import choose_target

    steps = targets(project)
    chosen = steps[choose_target(project.paths, steps, target)]
    seen = (
        synced.sources if chosen.sources is None else {name: synced.sources[name] for name in chosen.sources}
    )
    # What the source is has no part in the variables, only where it stands.
    plan = plan_target(target, chosen, synced.environment, Digest.of(b""), seen)
    shared = synced.environment.variables
    return {name: value for name, value in plan.variables.items() if shared.get(name) != value}


def _cmake(environment: Environment) -> CMake | None:
    if _program(environment, "cmake") is None:
        return None
    return CMake(_emscripten(environment), _program(environment, "ninja"))


def _program(environment: Environment, name: str) -> str | None:
    """The path in the environment of the program that PATH finds."""
    for directory in environment.variables.get("PATH", "").split(":"):
        if directory and _has(environment, f"{directory}/{name}"):
            return f"{directory}/{name}"
    return None


def _emscripten(environment: Environment) -> str | None:
    tools = [tree.mount for tree in environment.trees if tree.mount != "/"]
    places = [f"{mount}{below}" for mount in tools for below in ("/upstream/emscripten", "/emscripten", "")]
    # A tool goes before what the base has, as on PATH.
    files = [f"{place}/{_EMSCRIPTEN_CMAKE}" for place in (*places, *_EMSCRIPTEN_PLACES)]
    return next((file for file in files if _has(environment, file)), None)


def _has(environment: Environment, path: str) -> bool:
    return View(environment.trees).locate(path) is not None
