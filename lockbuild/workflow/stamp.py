"""What is known of a project's files since a command read and checked them.

``lock --check``, a ``sync`` of what is there already and small builds are run by editors, hooks and makefiles all the
time; reading and validating the manifests and the lock takes longer than all the rest of them. So a successful check
or sync leaves a stamp in the project's state directory: the digest of every file that was read, and what came of them.
While those files have the same bytes, and it is the same lockbuild, the answer is the same.

What the stamp says is a function of the files that it names, and of nothing else: whether the store and the engine
still have what was made is asked anew each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lockbuild
from lockbuild.model.digest import Digest
from lockbuild.workflow.workspace import STATE_NAME, ProjectPaths

_FILE = "stamp.json"


def read_stamp(paths: ProjectPaths) -> Mapping[str, Any]:
    """What is stamped (``checked``, ``synced``), if every file that the stamp names has the same bytes as then; empty
    otherwise."""
    try:
        stamp = json.loads((paths.directory / STATE_NAME / _FILE).read_bytes())
        files: dict[str, str] = stamp["files"]
        if stamp["by"] != _installation() or str(paths.lock) not in files:
            return {}
        if any(str(Digest.of(Path(path).read_bytes())) != digest for path, digest in files.items()):
            return {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def file_digests(read: Iterable[Path]) -> dict[str, str]:
    """The files ``read`` as a stamp names them. To be taken when they are read, not when the work is done: they may
    be edited meanwhile."""
    return {str(path): str(Digest.of(path.read_bytes())) for path in read}


def write_stamp(
    paths: ProjectPaths,
    files: Mapping[str, str],
    *,
    checked: bool = False,
    synced: Mapping[str, Any] | None = None,
) -> None:
    """Note of ``files`` (`file_digests`) that the lock among them was ``checked``, or what a sync made of it; what was
    noted of the same files before stays."""
    before = read_stamp(paths)
    if before.get("files") == files:
        checked = checked or before.get("checked") is True
        synced = synced or before.get("synced")
    stamp = {"by": _installation(), "files": dict(files), "checked": checked, "synced": synced}
    try:
        file = paths.state / _FILE
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
        fresh.replace(file)
    except OSError:
        return  # a project that cannot be written to is only slower


def _installation() -> str:
    """This lockbuild: its version, and for those who work on it when its code last changed."""
    package = Path(lockbuild.__file__).parent
    newest = max(file.stat().st_mtime_ns for file in package.glob("*/*.py"))
    return f"{lockbuild.__version__} {newest}"
