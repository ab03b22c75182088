"""Bringing files out of a sandbox, from a directory or from an engine's tar stream.

What a build left there is not trusted: names that climb, links that lead elsewhere and entries that would
be written through a link must not reach a host file. So files and directories are made first, below a
directory of our own in which nothing is a link yet, and symbolic links last. Where files are selected, a
selected entry of another kind is an error: to leave it out would be to lose an output.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from lockbuild.descent import descend
from lockbuild.errors import BuildError, IntegrityError, SandboxError
from lockbuild.sandbox import holes
from lockbuild.sandbox.backend import Select

if TYPE_CHECKING:
    import tarfile

    from typing_extensions import Buffer

_CHUNK = 1 << 20
_PATH_MAX = 4096
"""limits.h of Linux."""


class Exported:
    """The destination of an export. `close` makes the symbolic links, or refuses what was selected wrongly."""

    def __init__(self, destination: Path, select: Select | None) -> None:
        self._destination = destination
        self._select = select
        self._links: list[tuple[Path, str]] = []
        self._refused: list[str] = []
        destination.mkdir(parents=True, exist_ok=True)

    def wants(self, relative: str) -> bool:
        """Whether the regular file there is to be copied."""
        return self._select is None or self._select(relative)

    def directory(self, relative: str) -> None:
        """An empty directory; left out where only selected files are wanted."""
        if self._select is None:
            self._at(relative).mkdir(parents=True, exist_ok=True)

    def link(self, relative: str, target: str) -> None:
        """A symbolic link; where only selected files are wanted, it must not be one of them."""
        if self._select is None:
            self._links.append((self._at(relative), target))
        elif self._select(relative):
            self._refused.append(f"{relative} (a symbolic link to {target})")

    def special(self, relative: str) -> None:
        """A fifo, socket or device: left out, and must not be one of the selected files."""
        if self._select is not None and self._select(relative):
            self._refused.append(f"{relative} (a fifo, socket or device)")

    def file(self, relative: str, source: IO[bytes], *, executable: bool) -> None:
        """A regular file with the bytes of ``source``."""
        with self._new_file(relative, executable) as out:
            shutil.copyfileobj(source, out, _CHUNK)

    def copy(self, relative: str, source: int, *, executable: bool) -> None:
        """The same from a file of the host, open as ``source``; its holes stay holes."""
        with self._new_file(relative, executable) as out:
            holes.copy(source, out.fileno())

    @contextmanager
    def _new_file(self, relative: str, executable: bool) -> Iterator[IO[bytes]]:
        path = self._at(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as out:
            yield out
            os.fchmod(out.fileno(), 0o755 if executable else 0o644)

    def hard_link(self, relative: str, first: str) -> bool:
        """A file with the bytes of ``first``; False where that was not copied."""
        source = self._at(first)
        if not source.is_file():
            return False
        with source.open("rb") as stream:
            self.file(relative, stream, executable=bool(source.stat().st_mode & stat.S_IXUSR))
        return True

    def close(self) -> None:
        """Make the links. The export is complete then; BuildError where something selected is no regular file."""
        if self._refused:
            raise BuildError(
                f"what was made is not a regular file: {', '.join(self._refused)}",
                hint="name the file that a link leads to, or let a step put a copy there (`cp -L`)",
            )
        for path, target in self._links:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)

    def _at(self, relative: str) -> Path:
        path = PurePosixPath(relative)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise IntegrityError("a sandbox gave out a name that leaves its directory", on=relative)
        if len(os.fsencode(self._destination / path)) >= _PATH_MAX:
            raise BuildError(
                "what was made is nested too deep: its path is longer than the system takes",
                on=f"{relative[:60]}…",
                hint="let a step remove it, or copy what is needed of it to a shorter path",
            )
        return self._destination / path


def export_directory(source: Path, exported: Exported) -> None:
    """Copy what is below the host directory ``source``, which no process changes meanwhile. What its owner may
    not read becomes readable."""

    def enter(directory: int, names: Sequence[str]) -> list[str]:
        prefix = "".join(f"{name}/" for name in names)
        directories = []
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda item: item.name)
        for entry in entries:
            relative = prefix + entry.name
            if entry.is_symlink():
                exported.link(relative, os.readlink(entry.name, dir_fd=directory))
            elif entry.is_dir(follow_symlinks=False):
                exported.directory(relative)
                directories.append(entry.name)
            elif not entry.is_file(follow_symlinks=False):
                exported.special(relative)
            elif exported.wants(relative):
                descriptor = _open(entry.name, directory)
                try:
                    executable = bool(os.fstat(descriptor).st_mode & stat.S_IXUSR)
                    exported.copy(relative, descriptor, executable=executable)
                finally:
                    os.close(descriptor)
        return directories

    descend(source, enter, forced=True)
    exported.close()


def _open(name: str, directory: int) -> int:
    """A regular file of the directory, also where its owner may not read it."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=directory)
    except PermissionError:
        mode = stat.S_IMODE(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        os.chmod(name, mode | 0o400, dir_fd=directory)
        return os.open(name, flags, dir_fd=directory)


def export_tar(chunks: Iterable[bytes], exported: Exported, again: Callable[[str], Iterable[bytes]]) -> None:
    """Copy what is below the one directory that the tar stream ``chunks`` holds, while it streams.

    ``again`` gives the tar stream of the single file at a relative path: for a selected hard link
    to a file that was not selected.
    """
    import tarfile

    try:
        missing = _extract_all(chunks, exported)
        for relative in missing:
            with tarfile.open(fileobj=_reader(again(relative)), mode="r|", bufsize=_CHUNK) as archive:
                for member in archive:
                    if member.isreg():
                        _extract(archive, member, relative, exported)
                    elif member.issym():
                        exported.link(relative, member.linkname)
    except tarfile.TarError as error:
        raise SandboxError(f"the engine broke off while it gave out files: {error}") from error
    exported.close()


def _extract_all(chunks: Iterable[bytes], exported: Exported) -> list[str]:
    """Copy; the wanted hard links whose first name was not copied are left."""
    import tarfile

    missing: list[str] = []
    with tarfile.open(fileobj=_reader(chunks), mode="r|", bufsize=_CHUNK) as archive:
        for member in archive:
            relative = member.name.rstrip("/").partition("/")[2]
            if not relative:
                continue
            if member.isdir():
                exported.directory(relative)
            elif member.issym():
                exported.link(relative, member.linkname)
            elif member.isreg() and exported.wants(relative):
                _extract(archive, member, relative, exported)
            elif member.islnk() and exported.wants(relative):
                first = member.linkname.partition("/")[2]
                if not exported.hard_link(relative, first):
                    missing.append(relative)
            elif not (member.isreg() or member.islnk()):
                exported.special(relative)
    return missing


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, relative: str, exported: Exported) -> None:
    content = archive.extractfile(member)
    assert content is not None
    exported.file(relative, content, executable=bool(member.mode & stat.S_IXUSR))


def _reader(chunks: Iterable[bytes]) -> io.BufferedReader:
    return io.BufferedReader(_Chunks(chunks), _CHUNK)


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a readable file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
