"""A source directory as a tree of the store, so that a build sees exactly what its input digest names.

Nothing of the working copy is mounted into a sandbox: editing while a build runs changes nothing, and mode,
owner and time of a file are those of the canonical tree on every machine.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import stat
from pathlib import Path, PurePosixPath

from lockbuild.build.ignore import walk_source
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.store import Store


def snapshot(
    directory: Path, store: Store, *, within: Path | None = None, excluded: frozenset[Path] = frozenset()
) -> Digest:
    """Copy what is source in ``directory`` into the store; the digest of the tree, rooted at itself. The store is no
    source, wherever it stands.

    UsageError for a directory that is not there, or that links lead out of the project ``within`` which it is; for a
    link that leads out of it, or a file that is not a regular one.
    """
    if not directory.is_dir():
        raise UsageError("there is no such directory", on=str(directory))
    real = directory.resolve()
    if within is not None and not real.is_relative_to(within.resolve()):
        raise UsageError(
            f"a link leads out of the project, to {real}",
            on=str(directory),
            hint="copy what it leads to into the project",
        )
    with store.new_tree() as tree:
        try:
            for relative, entry in walk_source(directory, excluded | {store.root}):
                _copy(directory, relative, entry, tree.path)
        except OSError as error:
            read = error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO) and error.filename
            if not read or not Path(os.fsdecode(read)).is_relative_to(directory):
                raise  # the store's
            raise UsageError(
                f"it cannot be read: {error.strerror}",
                on=str(error.filename),
                hint="make it readable, or leave it out by .gitignore",
            ) from error
        return tree.commit()


def _copy(root: Path, relative: str, entry: os.DirEntry[str], tree: Path) -> None:
    destination = tree / relative
    for parent in reversed(PurePosixPath(relative).parents[:-1]):
        directory = tree / parent
        if not directory.is_dir():
            directory.mkdir()
            directory.chmod(0o755)
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
        destination.symlink_to(target)
    elif stat.S_ISREG(status.st_mode):
        shutil.copyfile(entry.path, destination, follow_symlinks=False)
        destination.chmod(0o755 if status.st_mode & 0o111 else 0o644)
    else:
        raise UsageError(
            f"{relative} is neither a file nor a link", on=str(root), hint="ignore it in .gitignore"
        )
