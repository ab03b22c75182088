"""What is kept of a project's builds beside their outputs: logs, and the build directories of those that failed.

They stand in the project's state directory, or beside the store where the project cannot be written to: a checkout
that is mounted read-only can be reproduced, too.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.build.replace import replace_directory
from lockbuild.descent import remove
from lockbuild.events import Note, Reporter
from lockbuild.model.digest import Digest
from lockbuild.sandbox.backend import Session
from lockbuild.store.durable import write_all
from lockbuild.workflow.own_directory import OwnDirectory
from lockbuild.workflow.workspace import ProjectPaths, Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer


def state_directory(workspace: Workspace, paths: ProjectPaths) -> OwnDirectory:
    """The directory for what is kept of the project; made where it is missing. UsageError where a link or a file stands
    in its place."""
    try:
        state = paths.make_state()
        if os.access(state.path, os.W_OK | os.X_OK):
            return state
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    projects = workspace.store.root / "work" / "projects"
    projects.mkdir(parents=True, exist_ok=True)
    state = OwnDirectory(projects, (Digest.of(os.fsencode(paths.directory)).hex[:16],))
    state.make()
    return state


class Log(io.RawIOBase):
    """What a build writes, in the new ``file`` at ``path``. A disk that is full ends the log, with a warning, and not
    the build."""

    def __init__(self, path: Path, file: io.FileIO, report: Reporter) -> None:
        self.path = path
        self._report = report
        self._file = file
        self._whole = True

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        if self._whole:
            try:
                write_all(self._file.fileno(), view)
            except OSError as error:
                self._whole = False
                self._report(
                    Note(
                        f"{self.path}: the log cannot be written any more: {error.strerror}", level="warning"
                    )
                )
        return len(view)

    def close(self) -> None:
        self._file.close()
        super().close()


def new_log(workspace: Workspace, paths: ProjectPaths, name: str) -> Log:
    """The log of what is called ``name``. Another build at the same time goes on writing to its own, which has no
    name any more."""
    logs = state_directory(workspace, paths) / "logs"
    logs.make()
    file = f"{name}.log"
    return Log(logs.path / file, logs.create(file), workspace.report)


def failed_directory(workspace: Workspace, paths: ProjectPaths, target: str) -> OwnDirectory:
    """Where the build directory of a target's last failed build is kept."""
    return state_directory(workspace, paths) / "failed" / target


def keep_failed(
    workspace: Workspace, paths: ProjectPaths, target: str, session: Session, directory: str
) -> None:
    """Keep the sandbox's ``directory`` as that of the target's last failed build."""
    failed = state_directory(workspace, paths) / "failed"
    kept = failed / target
    fresh = failed.make() / f".{target}.{secrets.token_hex(4)}"
    kept.check()
    try:
        fresh.mkdir()
        session.export(directory, fresh)
        replace_directory(fresh, kept.path)
    finally:
        with suppress(OSError):
            remove(fresh)
