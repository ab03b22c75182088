"""What a sandbox needs of a root that is somebody else's image: added where that is harmless, asked for where not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lockbuild.archive.rootfs import locate
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.descent import remove
from lockbuild.environment.known_files import ABSENT, DIRECTORIES, FILES
from lockbuild.errors import ResolveError, storage_error
from lockbuild.model.environment import BUILD_DIR, HOME_DIR, SOURCE_DIR, SOURCES_DIR, TMP_DIR
from lockbuild.model.platform import Platform

_PROGRAMS = (("/bin/sh",), ("/usr/bin/env",), ("/bin/cat", "/usr/bin/cat"))
_MOUNT_POINTS = ("build", "dev", "opt", "proc", "sys", "tmp")
_EMPTY = ("/dev", "/proc", "/sys", BUILD_DIR, HOME_DIR, SOURCE_DIR, SOURCES_DIR, TMP_DIR)
"""What something else stands in the place of, in every sandbox."""
_MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of ELF, elf(5)."""


def settle(root: Path, *, platform: Platform, on: str) -> None:
    """Make ``root`` a base root. ResolveError, on the image ``on``, where it cannot be one: everything that is wrong.

    Directories that are mount points are there afterwards, and empty; accounts and host names are as in other roots.
    """
    try:
        wrong = [*_obstacles(root), *_missing(root, platform)]
        if wrong:
            raise ResolveError(
                "the image cannot be a base: " + "; ".join(wrong),
                on=on,
                hint="a base needs a POSIX shell and coreutils or BusyBox: name another image, or have them added by "
                "[base.debian], if it was made from Debian packages",
            )
        for name in _EMPTY:
            directory = locate(root, name)
            if directory is not None and directory.is_dir():
                for entry in directory.iterdir():
                    remove(entry)
        for name in ABSENT:
            parent, _, last = name.rpartition("/")
            directory = locate(root, parent)
            if directory is not None and directory.is_dir():
                remove(directory / last)
        with TreeWriter(root, origin=on, rooted=True) as writer:
            for name in DIRECTORIES:
                writer.directory(name)
            for name, text in FILES.items():
                writer.file(name, _with_build_user(root, name, text), executable=False)
    except OSError as error:
        raise storage_error(error, "cannot make a base of the image", on=on) from error


def _obstacles(root: Path) -> Iterator[str]:
    for name in _MOUNT_POINTS:  # at the top, where no link can come before
        path = root / name
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            kind = "a symbolic link" if path.is_symlink() else "a file"
            yield f"/{name} is {kind}, and a directory is needed there"


def _missing(root: Path, platform: Platform) -> Iterator[str]:
    for names in _PROGRAMS:
        name = names[0]
        program = next((found for name in names if (found := _program(root, name)) is not None), None)
        if program is None:
            yield f"it has no {name}"
            continue
        with program.open("rb") as file:
            head = file.read(20)
        machine = int.from_bytes(head[18:20], "little")
        if head.startswith(b"\x7fELF") and machine != _MACHINES[platform.machine]:
            yield f"its {name} is not for {platform}"


def _program(root: Path, name: str) -> Path | None:
    found = locate(root, name)
    if found is None:
        return None
    mode = found.lstat().st_mode
    return found if stat.S_ISREG(mode) and mode & 0o111 else None


def _with_build_user(root: Path, name: str, text: str) -> bytes:
    """What the file ``name`` has to have: accounts are added to those of the image, the rest is as everywhere."""
    if name not in ("etc/passwd", "etc/group"):
        return text.encode()
    found = locate(root, f"/{name}")
    own = found.read_bytes() if found is not None and found.is_file() else b""
    known = [line.split(b":") for line in own.splitlines()]
    names = {fields[0] for fields in known}
    numbers = {fields[2] for fields in known if len(fields) > 2}
    lines = own if not own or own.endswith(b"\n") else own + b"\n"
    for line in text.encode().splitlines():
        fields = line.split(b":")
        if fields[0] not in names and fields[2] not in numbers:
            lines += line + b"\n"
    return lines
