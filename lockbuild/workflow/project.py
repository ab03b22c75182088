"""Reading a project: its manifest, its toolchain and its lock, and whether they belong together."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import InvalidFileError, Problem, StaleLockError, UsageError, storage_error
from lockbuild.model.belonging import misfits
from lockbuild.model.lock import Claim, InputValue, Lock, ManifestRecord
from lockbuild.model.lockfile import dumps, loads
from lockbuild.model.manifest import Manifest, ProjectFile
from lockbuild.model.manifest import Project as ProjectTable
from lockbuild.model.read import validate
from lockbuild.model.soundness import inputs_digest
from lockbuild.reading import read_regular
from lockbuild.workflow.place import is_written_into
from lockbuild.workflow.project_files import require_files
from lockbuild.workflow.toolchains import read_tables, read_text, read_toolchain, read_toolchain_file
from lockbuild.workflow.workspace import ProjectPaths


@dataclass(frozen=True, slots=True)
class Project:
    """A project whose manifests were read and are valid.

    ``toolchain_files`` are those that its toolchain stands in, the one that it names last.
    """

    paths: ProjectPaths
    manifest: Manifest
    toolchain_files: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that decides what the project's lock must be, and the lock."""
        named = [file for request in self.manifest.requests().values() for file in request.files()]
        return (
            self.paths.manifest,
            *self.toolchain_files,
            *(self.paths.directory / file for file in dict.fromkeys(named)),
            self.paths.lock,
        )


def load_project(paths: ProjectPaths) -> Project:
    """Read lockbuild.toml and the toolchain that it names, with what it overrides of that."""
    if paths.toolchain is not None:
        return _toolchain_alone(paths, paths.toolchain)
    project = validate(ProjectFile, read_tables(paths.manifest), str(paths.manifest))
    read = read_toolchain(
        project.project.toolchain, paths.directory, on=paths.manifest, key="project.toolchain"
    ).overridden(project.overrides, paths.manifest)
    manifest = Manifest(project=project, toolchain=read.toolchain())
    if wrong := [Problem(*text.split(": ", 1)) for text in manifest.misdirected()]:
        raise InvalidFileError(str(paths.manifest), wrong)
    return Project(paths, manifest, read.files)


def _toolchain_alone(paths: ProjectPaths, file: Path) -> Project:
    """A toolchain as a project that builds nothing: what can be locked and synced."""
    read = read_toolchain_file(file)
    toolchain = read.toolchain()
    nothing = ProjectFile.model_construct(
        project=ProjectTable(name=toolchain.name, toolchain=toolchain.name), targets={}
    )
    return Project(paths, Manifest.model_construct(project=nothing, toolchain=toolchain), read.files)


def load_lock(paths: ProjectPaths) -> Lock:
    """Read lockbuild.lock; UsageError where there is none."""
    lock = load_lock_if_any(paths)
    if lock is None:
        raise UsageError("there is no lock yet", on=str(paths.lock), hint="run `lockbuild lock`")
    return lock


def load_lock_if_any(paths: ProjectPaths) -> Lock | None:
    """Read lockbuild.lock; None where there is none."""
    text = read_text(paths.lock)
    return None if text is None else loads(text, str(paths.lock))


def write_lock(paths: ProjectPaths, lock: Lock) -> bool:
    """Write the lock atomically; False where it already had these bytes. UsageError where it cannot be written."""
    text = dumps(lock).encode()
    if paths.lock.exists() and read_regular(paths.lock) == text:
        return False
    if is_written_into(paths.lock):
        raise UsageError("a lock must be a file", on=str(paths.lock), hint="move away what stands there")
    try:
        replace_file(paths.lock, text)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise storage_error(
                error,
                "the lock cannot be written",
                on=str(paths.lock),
                instead="or work in a copy of the project",
            ) from error
        raise _unwritable(paths, error.strerror or str(error)) from error
    return True


def require_writable(paths: ProjectPaths) -> None:
    """UsageError where the lock could not be written; to be asked before long work whose result goes there."""
    import os

    if not os.access(paths.directory, os.W_OK | os.X_OK):
        raise _unwritable(paths, "its directory is not writable")


def _unwritable(paths: ProjectPaths, why: str) -> UsageError:
    return UsageError(
        f"the lock cannot be written: {why}",
        on=str(paths.lock),
        hint="make the project's directory writable, or work in a copy of it",
    )


def replace_file(file: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``file``, as a whole and durably; its mode stays. OSError."""
    import os
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        Path(name).chmod(mode)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def manifest_record(manifest: Manifest) -> ManifestRecord:
    """What a lock says of the manifest that it was made from."""
    inputs = manifest.inputs()
    return ManifestRecord(digest=inputs_digest(inputs), inputs=inputs)


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key of the manifest and its value before and after; None where the key was not there."""

    key: str
    old: InputValue | None
    new: InputValue | None

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.old)} -> {_shown(self.new)}"


def manifest_changes(lock: Lock, manifest: Manifest) -> list[KeyChange]:
    """The keys of the manifest that are not as the lock was made from them, sorted; those of claims last."""
    return [
        *_changes(lock.manifest.inputs, manifest.inputs()),
        *_changes(_shown_claims(lock.claims), _shown_claims(manifest.claims())),
    ]


def _changes(old: Mapping[str, InputValue], new: Mapping[str, InputValue]) -> list[KeyChange]:
    return [
        KeyChange(key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _shown_claims(claims: Mapping[str, Claim]) -> dict[str, InputValue]:
    return {
        f"claims.{name}": [claim.by, *(f"{f.path} {f.size} {f.sha256}" for f in claim.files)]
        for name, claim in claims.items()
    }


def require_current(project: Project, lock: Lock) -> None:
    """StaleLockError where the lock was made from another manifest, naming each key that changed; as
    `require_trees`."""
    changes = manifest_changes(lock, project.manifest)
    if changes:
        lines = "".join(f"\n  {change}" for change in changes)
        raise StaleLockError(
            f"the lock does not belong to this manifest; since it was made, this changed:{lines}",
            on=str(project.paths.lock),
            hint="run `lockbuild lock`; it keeps every pin that these keys do not touch",
        )
    require_trees(project, lock)
    require_files(lock, project.manifest, project.paths.directory, on=project.paths.lock)


def require_trees(project: Project, lock: Lock) -> None:
    """StaleLockError where the lock's trees are not those that the manifest asks for."""
    if wrong := misfits(lock, project.manifest):
        raise StaleLockError(
            "the lock does not hold what this manifest asks for: " + "; ".join(item.what for item in wrong),
            on=str(project.paths.lock),
            hint="it was edited or merged by hand; run `lockbuild lock`, which mends that and keeps every other pin",
        )


def _shown(value: InputValue | None) -> str:
    import json

    return "(not there)" if value is None else json.dumps(value, ensure_ascii=False)
