"""A tree from one archive: a tool below its mount point, or a project source rooted at itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockbuild.archive.extract import extract_archive
from lockbuild.archive.patch import apply_patch
from lockbuild.errors import ResolveError

Patch = tuple[str, Path]
"""What messages call a patch, and its file."""


def archive(
    file: Path,
    root: Path,
    *,
    mount: str,
    strip: int,
    name: str | None = None,
    subdirectory: str | None = None,
    patches: Sequence[Patch] = (),
) -> None:
    """Unpack ``file`` (tar of any usual compression, or zip) below ``root``/``mount``.

    ``mount`` is absolute; ``/`` roots the archive at ``root`` itself. The first ``strip`` components of
    each path are dropped; of the rest the content of ``subdirectory`` is kept, where it is given. To what is
    kept ``patches`` are applied in order. ``name`` is what messages call the file.

    Errors are those of `extract_archive` and `apply_patch`; ResolveError where there is no such directory.
    """
    target = root / mount.strip("/")
    shown = name or file.name
    extract_archive(file, target, name=shown, strip=strip, below=subdirectory or "")
    if subdirectory is not None and not any(target.iterdir()):
        raise ResolveError(
            f"the archive has nothing in the directory {subdirectory!r}"
            + (f" after dropping {strip} component{'s' if strip != 1 else ''} of each path" if strip else ""),
            on=shown,
            hint="look into the archive, and correct `subdirectory` or `strip`",
        )
    for patch_name, patch in patches:
        apply_patch(patch.read_bytes(), target, name=patch_name)
