"""A source directory as a tree of the store, so that a build sees exactly what its input digest names.

Nothing of the working copy is mounted into a sandbox: editing while a build runs changes nothing, and mode,
owner and time of a file are those of the canonical tree on every machine.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from pathlib import Path

from lockbuild.build.ignore import walk_source
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.sandbox import holes
from lockbuild.store import Store


def snapshot(
    directory: Path,
    store: Store,
    *,
    named: str | None = None,
    within: Path | None = None,
    excluded: frozenset[Path] = frozenset(),
) -> Digest:
    """Copy what is source in ``directory`` into the store; the digest of the tree, rooted at itself. The store is no
    source, wherever it stands. ``named`` says which key of which file names it.

    UsageError for a directory that is not there, or that links lead out of the project ``within`` which it is; for a
    link that leads out of it, or a file that is not a regular one.
    """
    if not directory.is_dir():
        raise UsageError(
            f"there is no directory {directory}",
            on=named,
            hint="make it, or name another one; paths are relative to the project",
        )
    real = directory.resolve()
    if within is not None and not real.is_relative_to(within.resolve()):
        raise UsageError(
            f"a link leads out of the project, to {real}",
            on=str(directory),
            hint="copy what it leads to into the project",
        )
    with store.new_tree() as tree:
        made = {""}
        try:
            for relative, entry in walk_source(directory, excluded | {store.root, store.root.resolve()}):
                _make_parents(relative, str(tree.path), made)
                _copy(directory, relative, entry, f"{tree.path}/{relative}")
        except OSError as error:
            told = _of_source(error, directory)
            if told is None:
                raise  # the store's
            raise told from error
        return tree.commit()


def _of_source(error: OSError, directory: Path) -> UsageError | None:
    """What ``error`` is if it is about what is in ``directory``; None where it is the store's."""
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(
            "a path in it is longer than the system takes, here or in the store",
            on=str(directory),
            hint="nest directories less deeply, or leave them out by .gitignore",
        )
    read = error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO) and error.filename
    if not read or not Path(os.fsdecode(read)).is_relative_to(directory):
        return None
    return UsageError(
        f"it cannot be read: {error.strerror}",
        on=str(error.filename),
        hint="make it readable, or leave it out by .gitignore",
    )


def _make_parents(relative: str, tree: str, made: set[str]) -> None:
    """The directories above ``relative`` in ``tree``, where they are not ``made`` yet."""
    missing = []
    parent = posixpath.dirname(relative)
    while parent not in made:
        missing.append(parent)
        parent = posixpath.dirname(parent)
    for parent in reversed(missing):
        directory = Path(f"{tree}/{parent}")
        directory.mkdir()
        directory.chmod(0o755)
        made.add(parent)


def _copy(root: Path, relative: str, entry: os.DirEntry[str], destination: str) -> None:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = Path(entry.path).readlink().as_posix()
        landing = posixpath.normpath(posixpath.join(posixpath.dirname(relative), target))
        if target.startswith("/") or landing == ".." or landing.startswith("../"):
            raise UsageError(
                f"the link {relative} leads out of the source directory, to {target}",
                on=str(root),
                hint="copy what it leads to into the project, or declare it under [sources]",
            )
        Path(destination).symlink_to(target)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(entry.path, destination)
    else:
        raise UsageError(
            f"{relative} is neither a file nor a link", on=str(root), hint="ignore it in .gitignore"
        )


def _copy_file(path: str, destination: str) -> None:
    """Copy the file at ``path``, its holes as such; it is looked at again when it is open, since it may be another."""
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(
                "it was replaced while it was read", on=path, hint="try again when it is at rest"
            )
        with Path(destination).open("xb", buffering=0) as out:
            holes.copy(source, out.fileno())
            os.fchmod(out.fileno(), 0o755 if status.st_mode & 0o111 else 0o644)
    finally:
        os.close(source)
