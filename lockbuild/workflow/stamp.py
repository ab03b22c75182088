"""What is known of a project's files since a command read and checked them.

``lock --check``, a ``sync`` of what is there already and small builds are run by editors, hooks and makefiles all the
time; reading and validating the manifests and the lock takes longer than all the rest of them. So a successful check
or sync leaves a stamp in the project's state directory: the digest of every file that was read, and what came of them.
While those files have the same bytes, and it is the same lockbuild, the answer is the same.

What the stamp says is a function of the files that it names, and of nothing else: whether the store and the engine
still have what was made is asked anew each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import lockbuild
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.reading import read_regular
from lockbuild.workflow.workspace import ProjectPaths

_FILE = "stamp.json"
_MUCH = 16 << 20
"""Bytes that a stamp has at most."""
_TICK = 20_000_000
"""Nanoseconds by which a file system's clock may be behind the system's: it ticks every few milliseconds."""


def read_stamp(paths: ProjectPaths) -> Mapping[str, Any]:
    """What is stamped (``checked``, ``synced``), if every file that the stamp names has the same bytes as then; empty
    otherwise."""
    try:
        stamp = json.loads(paths.state.read(_FILE, most=_MUCH))
        files: dict[str, str] = stamp["files"]
        if stamp["by"] != _installation() or str(paths.lock) not in files:
            return {}
        if any(str(Digest.of(read_regular(Path(path)))) != digest for path, digest in files.items()):
            return {}
    except (OSError, UsageError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def before_reading() -> int:
    """What `file_digests` wants to know of the moment before the first of the files is read."""
    return time.time_ns() - _TICK


def file_digests(read: Iterable[Path], since: int) -> dict[str, str]:
    """The files that were ``read`` after `before_reading` said ``since``, as a stamp names them. To be taken when they
    are read, not when the work is done: they may be edited meanwhile.

    Empty, so that nothing is stamped, where one of them has changed since then: what was read of it is not known.
    """
    found = {}
    for path in read:
        data = read_regular(path)
        if path.stat().st_ctime_ns >= since:
            return {}
        found[str(path)] = str(Digest.of(data))
    return found


def write_stamp(
    paths: ProjectPaths,
    files: Mapping[str, str],
    *,
    checked: bool = False,
    synced: Mapping[str, Any] | None = None,
) -> None:
    """Note of ``files`` (`file_digests`) that the lock among them was ``checked``, or what a sync made of it; what was
    noted of the same files before stays. Without files, nothing is noted."""
    if not files:
        return
    before = read_stamp(paths)
    if before.get("files") == files:
        checked = checked or before.get("checked") is True
        synced = synced or before.get("synced")
    stamp = {"by": _installation(), "files": dict(files), "checked": checked, "synced": synced}
    try:
        paths.make_state().replace(_FILE, json.dumps(stamp, indent=1).encode())
    except (OSError, UsageError):
        return  # a project that cannot be written to is only slower


@cache
def _installation() -> str:
    """This lockbuild: its version, and a digest of what the file system says of each of its files.

    With the times of change, which nobody sets: the files of images and reproducible packages all have one time of
    modification, and a stamp that somebody put into a repository must not be taken for one that was made here.
    """
    hasher = hashlib.sha256()
    waiting = [str(Path(lockbuild.__file__).parent)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name == "__pycache__":
                    continue
                if entry.is_dir():
                    waiting.append(entry.path)
                    continue
                status = entry.stat()
                told = (entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                hasher.update(repr(told).encode())
    return f"{lockbuild.__version__} {hasher.hexdigest()}"
