"""The machine itself: Python, space on its disks, and the programs that lockbuild runs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lockbuild
from lockbuild.amounts import amount
from lockbuild.config import Config
from lockbuild.doctor.finding import Finding, ok, warning
from lockbuild.errors import ExitStatus, storage_error
from lockbuild.reading import open_regular

_LITTLE = 3 << 30
"""Bytes: an environment with Emscripten has 1.1 GB, its packages 0.2 GB, a build of it some hundred MB."""
_NOTHING = 64 << 20
_FEW_FILES = 50_000
_OLDEST_GIT = (2, 31)


def python() -> Iterator[Finding]:
    """The interpreter that runs this."""
    version = f"lockbuild {lockbuild.__version__}, Python {platform.python_version()}"
    yield ok("python", f"{version} on {platform.system()} {platform.release()} ({platform.machine()})")


def store(root: Path) -> Iterator[Finding]:
    """Whether the store's place can be written to, has space, and lets programs be run from it."""
    yield from _place("store", root, needed=_LITTLE)
    if _flags(root) & getattr(os, "ST_NOEXEC", 0):
        yield warning(
            "store",
            "it lies on a file system that is mounted noexec: bubblewrap cannot run tools from there",
            subject=str(root),
            remedy="use a store elsewhere (--store DIR, LOCKBUILD_STORE), or remount it with exec",
        )


def project(directory: Path) -> Iterator[Finding]:
    """Whether the project's place can be written to and has space."""
    yield from _place("project", directory, needed=_NOTHING)


def git() -> Iterator[Finding]:
    """git, which sources from repositories need."""
    said = _output("git", "--version")
    found = re.search(r"(\d+)\.(\d+)[\w.]*", said or "")
    needed = ".".join(map(str, _OLDEST_GIT))
    if said is None or found is None:
        yield warning(
            "git",
            "there is no git; sources from git repositories cannot be had",
            remedy=f"install git, version {needed} or newer",
        )
    elif (int(found[1]), int(found[2])) < _OLDEST_GIT:
        yield warning("git", f"git {found[0]} is too old", remedy=f"install version {needed} or newer")
    else:
        yield ok("git", f"git {found[0]}")


def signatures(config: Config) -> Iterator[Finding]:
    """gpgv and the keyring, which locking Debian packages needs."""
    said = _output("gpgv", "--version")
    if said is None:
        yield warning(
            "gpgv",
            "there is no gpgv; Debian packages can be synced, but not locked",
            remedy="install gpgv (`apt install gpgv`)",
        )
    else:
        yield ok("gpgv", said.partition("\n")[0])
    keyring = config.debian_keyring()
    try:
        with open_regular(keyring) as file:
            empty = not file.read(1)
    except OSError as error:
        reason = "it is not there" if isinstance(error, FileNotFoundError) else error.strerror
    else:
        if not empty:
            yield ok("keyring", "signed Debian indexes are verified against it", subject=str(keyring))
            return
        reason = "it is empty"
    yield warning(
        "keyring",
        f"Debian packages can be synced, but not locked: {reason}",
        subject=str(keyring),
        remedy="install debian-archive-keyring, or name a keyring in lockbuild's config.toml ([debian] keyring)",
    )


def _place(check: str, directory: Path, *, needed: int) -> Iterator[Finding]:
    subject = str(directory)
    instead = "or use another place (--store DIR, LOCKBUILD_STORE)" if check == "store" else "or move it"
    # A project that only builds into -o DIR need not be writable.
    status = ExitStatus.FETCH if check == "store" else ExitStatus.OK
    existing = _existing(directory)
    try:
        if not directory.is_dir() and os.path.lexists(directory):
            raise NotADirectoryError(20, os.strerror(20))
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x" * 4096)
            file.flush()
        state = os.statvfs(existing)
    except OSError as error:
        told = storage_error(error, "it cannot be written to", instead=instead)
        yield Finding(
            check,
            "problem" if status else "warning",
            told.what,
            subject=subject,
            remedy=told.hint,
            status=status,
        )
        return
    free = state.f_bavail * state.f_frsize
    if free < _NOTHING:
        hint = f"free some space (`lockbuild store gc` removes what no lock needs), {instead}"
        yield Finding(
            check, "problem" if status else "warning", f"{amount(free)} free", subject, hint, status=status
        )
    elif free < needed:
        yield warning(
            check,
            f"{amount(free)} free; an environment with its sources takes about {amount(needed)}",
            subject=subject,
            remedy=f"free some space, {instead}",
        )
    elif state.f_files and state.f_favail < _FEW_FILES:
        yield warning(
            check,
            f"room for {state.f_favail} files only; an environment has about {_FEW_FILES}",
            subject=subject,
            remedy=instead.removeprefix("or "),
        )
    else:
        yield ok(check, f"{amount(free)} free", subject=subject)


def _existing(directory: Path) -> Path:
    """The directory, or the nearest one above that is there."""
    return next(place for place in (directory, *directory.parents) if place.is_dir())


def _flags(directory: Path) -> int:
    try:
        return os.statvfs(_existing(directory)).f_flag
    except OSError:
        return 0


def _output(program: str, *arguments: str) -> str | None:
    """What a program says, in English; None where it cannot be run."""
    found = shutil.which(program)
    if found is None:
        return None
    try:
        done = subprocess.run(
            [found, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
