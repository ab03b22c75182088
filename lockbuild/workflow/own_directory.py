"""A directory of the project that lockbuild writes in: its state, logs, failed builds, outputs.

Version control carries symbolic links. One in the place of such a directory, or of a file in it, would let a checkout
choose what on the host is replaced, removed or shown to a sandbox. So every component below the project is entered by
itself, without following a link (O_NOFOLLOW), and a file is made under a name that nobody can know before it takes its
place by a rename, which follows none either. What the user named, the project itself, may be reached in any way.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lockbuild.errors import UsageError
from lockbuild.store.durable import write_all

_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class OwnDirectory:
    """The directory that ``names`` lead to from ``root``, which need not be there. ``instead`` ends hints: what else
    helps than to remove what stands in its way.

    All methods raise UsageError where something else than a directory stands in its way, a link above all; OSError
    as the system has it.
    """

    root: Path
    names: tuple[str, ...]
    instead: str = ""

    def __truediv__(self, name: str) -> OwnDirectory:
        return replace(self, names=(*self.names, name))

    @property
    def path(self) -> Path:
        """Its path, of which nothing is known before `check`, `exists` or `make`."""
        return self.root.joinpath(*self.names)

    def exists(self) -> bool:
        """Whether it is there."""
        try:
            with self._entered():
                return True
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """UsageError where it is there and no directory, or its way is none."""
        self.exists()

    def make(self) -> Path:
        """Make what is missing of it; its path."""
        with self._entered(make=True):
            return self.path

    def read(self, name: str, *, most: int) -> bytes:
        """The bytes of the regular file ``name``; OSError where it is something else, or has more than ``most``."""
        with self._entered() as directory:
            descriptor = os.open(name, _READ, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self.path / name))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(descriptor)

    def add(self, name: str, data: bytes) -> None:
        """Make the file ``name``, unless something is called so."""
        with self._entered() as directory, suppress(FileExistsError):
            _write(os.open(name, _NEW, 0o666, dir_fd=directory), data)

    def replace(self, name: str, data: bytes) -> None:
        """Make the file ``name`` as a whole, in the place of what is called so."""
        with self._entered() as directory:
            fresh, descriptor = _new_file(directory, name)
            try:
                _write(descriptor, data)
                self._rename(directory, fresh, name)
            except BaseException:
                os.unlink(fresh, dir_fd=directory)
                raise

    def create(self, name: str) -> io.FileIO:
        """A new, empty file to write to, called ``name`` at once. Whoever writes to the one that was called so goes on
        with that, which has no name any more."""
        with self._entered() as directory:
            fresh, descriptor = _new_file(directory, name)
            try:
                self._rename(directory, fresh, name)
            except BaseException:
                os.close(descriptor)
                os.unlink(fresh, dir_fd=directory)
                raise
        return io.FileIO(descriptor, "wb")

    def _rename(self, directory: int, fresh: str, name: str) -> None:
        try:
            os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
        except IsADirectoryError:
            raise UsageError(
                "it is a directory, and lockbuild writes a file there",
                on=str(self.path / name),
                hint=f"move it away{self.instead}",
            ) from None

    @contextmanager
    def _entered(self, *, make: bool = False) -> Iterator[int]:
        """The directory as a descriptor to which names are relative; FileNotFoundError where it is not there."""
        directory = os.open(self.root, _ENTER)
        try:
            for depth, name in enumerate(self.names, start=1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=directory)
                try:
                    deeper = os.open(name, _ENTER | os.O_NOFOLLOW, dir_fd=directory)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                        raise
                    raise self._in_the_way(directory, depth) from None
                os.close(directory)
                directory = deeper
            yield directory
        finally:
            os.close(directory)

    def _in_the_way(self, directory: int, depth: int) -> UsageError:
        """Of what the last of the first ``depth`` names is in ``directory``."""
        name, path = self.names[depth - 1], self.root.joinpath(*self.names[:depth])
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return UsageError(
                "it is a symbolic link, and lockbuild follows none where it writes",
                on=str(path),
                hint=f"remove it{self.instead}",
            )
        return UsageError(
            "it is not a directory, and lockbuild writes there",
            on=str(path),
            hint=f"move it away{self.instead}",
        )


def _new_file(directory: int, name: str) -> tuple[str, int]:
    fresh = f".{name}.{secrets.token_hex(8)}"
    return fresh, os.open(fresh, _NEW, 0o666, dir_fd=directory)


def _write(descriptor: int, data: bytes) -> None:
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
