"""Private directories that are gone afterwards, whatever modes a build left in them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """A new directory below ``parent`` that only the caller can enter; removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="sandbox-", dir=parent.resolve()))
    try:
        yield path
    finally:
        remove(path)


def remove(path: Path) -> None:
    """Remove the tree at ``path``, also where its directories forbid that."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        open_up(path)
        shutil.rmtree(path)


def open_up(path: Path) -> None:
    """Let the owner read, write and enter every directory below ``path``, and read every file."""
    path.chmod(0o700)
    for parent, directories, files in os.walk(path):
        for name in directories:
            at = os.path.join(parent, name)  # noqa: PTH118  Path objects would double the time of a walk
            if not os.path.islink(at):  # noqa: PTH114
                mode = os.lstat(at).st_mode & 0o777
                if mode & 0o700 != 0o700:
                    os.chmod(at, mode | 0o700)  # noqa: PTH101
        for name in files:
            at = os.path.join(parent, name)  # noqa: PTH118
            mode = os.lstat(at).st_mode
            if mode & 0o400 == 0 and not os.path.islink(at):  # noqa: PTH114
                os.chmod(at, (mode & 0o777) | 0o400)  # noqa: PTH101
