"""Small disks, and places that cannot be written to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount is not permitted here: {done.stderr.strip()}")


@contextmanager
def small_disk(at: Path, size: int, *, files: int = 10_000, options: str = "rw") -> Iterator[Path]:
    """A file system of ``size`` bytes and room for so many ``files``, mounted at the new directory ``at``."""
    at.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size},nr_inodes={files},{options}", "none", at)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


@contextmanager
def read_only(directory: Path, at: Path) -> Iterator[Path]:
    """The directory once more at the new directory ``at``, where it cannot be written to, not even by root."""
    at.mkdir()
    _mount("--bind", directory, at)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", at], check=True)
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


def used(directory: Path) -> int:
    """Bytes that everything below it takes on the disk."""
    return sum(path.lstat().st_blocks for path in directory.rglob("*")) * 512
