"""A tree of files as they are, each at the place that its source names."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from lockbuild.errors import IntegrityError
from lockbuild.model.lock import Source


def files_tree(sources: Sequence[Source], files: Sequence[Path], root: Path, *, mount: str) -> None:
    """Copy each file to its place below ``root``/``mount``. IntegrityError where two cannot stand beside each other."""
    target = root / mount.strip("/")
    for source, file in zip(sources, files, strict=True):
        place = target / (source.at or source.location.rpartition("/")[2])
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as out, file.open("rb") as data:
                shutil.copyfileobj(data, out, 1 << 20)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise IntegrityError(f"something else stands at {source.at} already", on=source.purl) from None
