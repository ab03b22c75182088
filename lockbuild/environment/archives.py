"""A tree from one archive: a tool below its mount point, or a project source rooted at itself."""

from __future__ import annotations

from pathlib import Path

from lockbuild.archive.extract import extract_archive


def archive(file: Path, root: Path, *, mount: str, strip: int, name: str | None = None) -> None:
    """Unpack ``file`` (tar of any usual compression, or zip) below ``root``/``mount``.

    ``mount`` is absolute; ``/`` roots the archive at ``root`` itself. The first ``strip`` components of
    each path are dropped. ``name`` is what messages call the file. Errors are those of `extract_archive`.
    """
    extract_archive(file, root / mount.strip("/"), name=name or file.name, strip=strip)
