"""Knowing in milliseconds that there is nothing to do.

``lock --check`` and a ``sync`` of what is there already are run by editors, hooks and makefiles all the time; reading
and validating the manifests and the lock takes longer than all of the answer. So a successful check or sync leaves a
stamp in the project's state directory: the digest of every file that was read, and what came of them. While those
files have the same bytes, and the store and the engine still have what the sync made, the answer is the same.

A stamp only ever saves work that changes nothing: whatever builds reads everything anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lockbuild
from lockbuild.model.digest import Digest
from lockbuild.workflow.workspace import STATE_NAME, ProjectPaths, Workspace

_FILE = "stamp.json"


def stamped_current(paths: ProjectPaths) -> bool:
    """Whether the lock was found to be current and canonical, and no file that this was read from has changed since."""
    stamp = _stamp(paths)
    return stamp is not None and stamp.get("checked") is True


def stamped_sync(workspace: Workspace, paths: ProjectPaths) -> dict[str, Any] | None:
    """The result of the last sync as it is printed with --json, if doing it again would do nothing; else None."""
    stamp = _stamp(paths)
    synced = stamp.get("synced") if stamp else None
    if not synced or synced["platform"] != str(workspace.platform):
        return None
    trees = [Digest.parse(text) for text in synced["trees"].values()]
    if not workspace.store.has_root(paths.lock):
        return None  # another store, which would not keep the trees for this lock
    if not all(workspace.store.has_tree(digest) for digest in trees):
        return None
    if not _image_is_there(workspace, Digest.parse(synced["image"]), Digest.parse(synced["manifest"])):
        return None
    return {**synced, "made": []}


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
    before = _stamp(paths) or {}
    if before.get("files") == files:
        checked = checked or before.get("checked") is True
        synced = synced or before.get("synced")
    stamp = {"version": lockbuild.__version__, "files": dict(files), "checked": checked, "synced": synced}
    try:
        file = paths.state / _FILE
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
        fresh.replace(file)
    except OSError:
        return  # a project that cannot be written to is only slower


def _stamp(paths: ProjectPaths) -> dict[str, Any] | None:
    """The stamp, if every file that it names has the same bytes as then."""
    try:
        stamp = json.loads((paths.directory / STATE_NAME / _FILE).read_bytes())
        files: dict[str, str] = stamp["files"]
        if stamp["version"] != lockbuild.__version__ or str(paths.lock) not in files:
            return None
        if any(str(Digest.of(Path(path).read_bytes())) != digest for path, digest in files.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stamp if isinstance(stamp, dict) else None


def _image_is_there(workspace: Workspace, image: Digest, manifest: Digest) -> bool:
    if workspace.backend_name not in ("auto", "docker"):
        return True
    from lockbuild.transport.engine import find_engine

    endpoint = find_engine(workspace.environ)
    if endpoint is None:
        return workspace.backend_name == "auto"
    from lockbuild.oci.load import loaded

    return loaded(endpoint, image, manifest) is not None
