"""What a target built to, from a cache, in the place of building: only where the lock says what it must be.

The record must be of this platform and of just the inputs that a build would have now; each file is taken by its
recorded SHA-256. So the outputs are those of a build that was seen to be right, or there are none. A record has no
modes: none of the files is executable. ``reproduce`` never comes here.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path, PurePosixPath

from lockbuild.model.lock import OutputFile
from lockbuild.model.outcome import BuildOutcome, BuiltFile
from lockbuild.workflow.cache import Cache
from lockbuild.workflow.project import load_lock
from lockbuild.workflow.ready import Ready
from lockbuild.workflow.session import prepare
from lockbuild.workflow.workspace import Workspace

BACKEND = "cache"
"""What an outcome says in the place of the back-end that built it."""


def recorded_outputs(
    workspace: Workspace, cache: Cache, ready: Ready, target: str, destination: Path | None, directory: Path
) -> BuildOutcome | None:
    """Put the recorded outputs of ``target`` into the empty ``directory``; None where they are not to be had."""
    started = time.monotonic()
    recorded = load_lock(ready.paths).outputs.get(target)
    if recorded is None or recorded.platform != workspace.platform:
        return None
    if not all(_is_below(file) for file in recorded.files):
        return None
    plan = prepare(workspace, ready, target, destination).plan
    if recorded.input != plan.digest():
        return None
    if not cache.fetch_files((file.sha256, file.size, file.path) for file in recorded.files):
        return None
    for file in recorded.files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(workspace.store.verified_blob(file.sha256), path)
    return BuildOutcome(
        target=target,
        input=recorded.input,
        files=tuple(BuiltFile(file.path, file.size, file.sha256) for file in recorded.files),
        backend=BACKEND,
        reproducible=True,
        seconds=time.monotonic() - started,
    )


def _is_below(file: OutputFile) -> bool:
    """Whether a path of a lock that somebody wrote stays below the output directory."""
    path = PurePosixPath(file.path)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)
