"""Writes entries of archives below one directory, and never anywhere else.

Whatever the entries say, nothing outside the root is created, changed or read: names cannot climb
out, no link that an archive made is followed on the host, and a kind of entry is never silently
replaced by another. Two policies:

- *contained* (the default), for an archive that stands on its own: a symbolic link must stay inside
  the root, and an entry below a symbolic link is refused;
- *rooted*, for packages that are merged into one root file system, where ``/lib`` may be a link to
  ``usr/lib``: links are resolved as a process sees them after chroot(2), so ``lib/x`` lands in
  ``usr/lib/x`` and an absolute target starts again at the root. Targets are not restricted.

Modes become 0644 and 0755, times the epoch; owners are whoever runs this. Files are created new
and never opened through a link, so several processes may write disjoint entries into one root.
"""

# Names are bytes here, which pathlib does not take.
# ruff: noqa: PTH101, PTH102, PTH108, PTH115, PTH211
from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Protocol, Self

from lockbuild.archive import links
from lockbuild.errors import IntegrityError, storage_error

LIMIT = 64 << 30
"""How many bytes one writer may unpack unless it is told otherwise: 64 GiB."""
_ENTRY_COST = 4096
_CHUNK = 1 << 20
_MAX_LINKS = 40
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Readable(Protocol):
    """Where a file's bytes come from."""

    def read(self, size: int, /) -> bytes: ...


class TreeWriter:
    """Writes entries below ``root`` (an existing directory); use it as a context manager.

    ``origin`` is the archive's name, for messages; change it from one archive to the next.
    ``limit`` bounds the bytes written, each entry counted as at least 4 KiB and a hard link as its
    file, so that a small archive cannot fill a disk or make a tree that takes days to hash.

    Names are paths relative to the root, ``str`` meaning UTF-8; a leading ``./`` and a trailing ``/``
    do not matter. Every method raises IntegrityError, naming archive and entry, for what is not
    safe, and FetchError for what the file system refuses.
    """

    def __init__(self, root: Path, *, origin: str, rooted: bool = False, limit: int = LIMIT) -> None:
        self.origin = origin
        self._base = os.fsencode(root) + b"/"
        self._rooted = rooted
        self._limit = limit
        self._spent = 0
        self._entry = b""
        self._directories: dict[bytes, bytes] = {b"": b""}  # as named -> where it really is
        self._real: set[bytes] = {b""}  # known to be directories, not links
        self._touched: set[bytes] = {b""}
        self._climbing: list[tuple[bytes, bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()

    def directory(self, name: bytes | str) -> None:
        """Make the directory ``name`` where it does not stand yet."""
        parts = self._begin(name)
        try:
            self._find(parts)
        except OSError as error:
            raise self._failed(error) from error

    def file(
        self, name: bytes | str, data: bytes | Readable, *, size: int | None = None, executable: bool
    ) -> None:
        """Write a regular file, in place of an earlier one of that name.

        Reads ``data`` up to its end; when ``size`` is given, exactly that many bytes, and
        IntegrityError if there are fewer.
        """
        parts = self._begin(name)
        try:
            path = self._place(parts)
            descriptor = os.open(path, _CREATE, 0o600)
            try:
                self._copy(data, descriptor, size)
                os.fchmod(descriptor, 0o755 if executable else 0o644)
                os.utime(descriptor, ns=(0, 0))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failed(error) from error

    def symlink(self, name: bytes | str, target: bytes | str) -> None:
        """Make a symbolic link to ``target``, which stays as it is written."""
        parts = self._begin(name)
        goal = _bytes(target)
        if not goal or b"\0" in goal:
            raise self.refuse("the target of the symbolic link is empty or has a NUL byte")
        try:
            path = self._place(parts, link=True)
            if not self._rooted:
                self._check_link(path[len(self._base) :], goal)
            os.symlink(goal, path)
            os.utime(path, ns=(0, 0), follow_symlinks=False)
        except OSError as error:
            raise self._failed(error) from error

    def hardlink(self, name: bytes | str, target: bytes | str) -> None:
        """Make ``name`` the same file as ``target``, a file (or symbolic link) that was written before."""
        parts = self._begin(name)
        goal = _bytes(target)
        goal_parts = self._parts(goal, "the target of the hard link")
        if not goal_parts:
            raise self.refuse("the hard link leads to a directory")
        try:
            source = self._base + _join(self._find(goal_parts[:-1], create=False), goal_parts[-1])
            try:
                status = os.lstat(source)
            except FileNotFoundError:
                raise self._missing(goal) from None
            if stat.S_ISLNK(status.st_mode):
                self.symlink(name, os.readlink(source))
                return
            if not stat.S_ISREG(status.st_mode):
                raise self.refuse(f"the hard link leads to {_kind(status.st_mode)}, not to a file")
            self._spend(status.st_size)
            if self._spot(parts) != source:
                os.link(source, self._place(parts), follow_symlinks=False)
        except OSError as error:
            raise self._failed(error) from error

    def finish(self) -> None:
        """Set the directories' times, and check the links that could only be checked at the end."""
        for place, target in self._climbing:
            self._entry = place
            if fault := links.fault_in_tree(self._base, place, target):
                raise self.refuse(fault)
        self._climbing.clear()
        try:
            for directory in self._touched:
                os.utime(self._base + directory, ns=(0, 0))
        except OSError as error:
            raise self._failed(error) from error

    def unsafe(self, name: bytes | str, why: str) -> NoReturn:
        """Refuse the entry ``name`` for a reason that its kind gives: a device, a fifo."""
        self._entry = _bytes(name)
        raise self.refuse(why)

    def refuse(self, why: str) -> IntegrityError:
        """The error that says why the present entry of the present archive is not taken."""
        entry = repr(os.fsdecode(self._entry))[1:-1]
        return IntegrityError(
            f"the archive is not safe to unpack: {why}",
            on=f"{self.origin}: {entry}" if entry else self.origin,
            hint="get the archive from its publisher again; if it is the same, tell them",
        )

    def _begin(self, name: bytes | str) -> list[bytes]:
        self._entry = _bytes(name)
        self._spend(_ENTRY_COST)
        return self._parts(self._entry, "the name")

    def _parts(self, name: bytes, what: str) -> list[bytes]:
        if name.startswith(b"/"):
            raise self.refuse(f"{what} is absolute")
        if b"\0" in name:
            raise self.refuse(f"{what} has a NUL byte")
        parts = [part for part in name.split(b"/") if part not in (b"", b".")]
        if b".." in parts:
            raise self.refuse(f"{what} has a '..'")
        return parts

    def _spend(self, amount: int) -> None:
        self._spent += amount
        if self._spent > self._limit:
            raise self.refuse(f"it unpacks to more than the limit of {self._limit:,} bytes")

    def _find(self, parts: list[bytes], *, create: bool = True) -> bytes:
        """Where the directory of that name really is, relative to the root; makes what is missing."""
        named = b"/".join(parts)
        known = self._directories.get(named)
        if known is None:
            known = self._directories[named] = self._walk(parts, create)
        return known

    def _walk(self, parts: list[bytes], create: bool) -> bytes:
        todo = parts[::-1]
        here: list[bytes] = []
        followed = 0
        while todo:
            part = todo.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":  # only out of a link's target, in a rooted tree: the root's parent is the root
                del here[-1:]
                continue
            place = b"/".join((*here, part))
            if place not in self._real:
                mode = self._mode(place, create)
                if stat.S_ISLNK(mode):
                    followed += 1
                    if not self._rooted:
                        raise self.refuse("it would be written through a symbolic link")
                    if followed > _MAX_LINKS:
                        raise self.refuse("its directory is a symbolic link in a circle")
                    target = os.readlink(self._base + place)
                    if target.startswith(b"/"):
                        here = []
                    todo.extend(reversed(target.split(b"/")))
                    continue
                if not stat.S_ISDIR(mode):
                    raise self.refuse(f"a directory is needed where {_kind(mode)} stands")
                self._real.add(place)
            here.append(part)
        return b"/".join(here)

    def _mode(self, place: bytes, create: bool) -> int:
        path = self._base + place
        try:
            return os.lstat(path).st_mode
        except FileNotFoundError:
            if not create:
                raise self._missing(place) from None
        try:
            os.mkdir(path)
        except FileExistsError:  # another process was faster
            return os.lstat(path).st_mode
        os.chmod(path, 0o755)  # noqa: S103  whatever the umask
        self._touched.add(place)
        self._touched.add(place.rpartition(b"/")[0])
        return stat.S_IFDIR

    def _spot(self, parts: list[bytes]) -> bytes:
        """The absolute path that a file or link of that name has."""
        if not parts:
            raise self.refuse("only a directory can stand at the top")
        directory = self._find(parts[:-1])
        self._touched.add(directory)
        return self._base + _join(directory, parts[-1])

    def _place(self, parts: list[bytes], *, link: bool = False) -> bytes:
        """The same, with the way cleared for a new file or symbolic ``link``."""
        path = self._spot(parts)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return path
        if stat.S_ISREG(mode) and (self._rooted or not link):
            os.unlink(path)  # and not truncated: other names may be hard links to it
        elif stat.S_ISLNK(mode) and self._rooted:
            os.unlink(path)
            self._directories = {b"": b""}  # some may have been found through that link
        else:
            raise self.refuse(f"{_kind(mode)} of that name stands there already")
        return path

    def _check_link(self, place: bytes, target: bytes) -> None:
        if fault := links.fault_at_once(place, target):
            raise self.refuse(fault)
        if links.needs_the_whole_tree(target):
            self._climbing.append((place, target))

    def _copy(self, data: bytes | Readable, descriptor: int, size: int | None) -> None:
        if isinstance(data, bytes):
            self._spend(len(data))
            _write(descriptor, data)
            return
        left = size
        while left is None or left > 0:
            chunk = data.read(_CHUNK if left is None else min(left, _CHUNK))
            if not chunk:
                break
            self._spend(len(chunk))
            _write(descriptor, chunk)
            if left is not None:
                left -= len(chunk)
        if left:
            raise self.refuse("the archive ends in the middle of it")

    def _missing(self, name: bytes) -> IntegrityError:
        return self.refuse(f"the hard link leads to {os.fsdecode(name)!r}, which is not in the archive")

    def _failed(self, error: OSError) -> Exception:
        entry = repr(os.fsdecode(self._entry))[1:-1]
        return storage_error(error, "cannot unpack", on=f"{self.origin}: {entry}")


def _bytes(name: bytes | str) -> bytes:
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "a file"
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a symbolic link" if stat.S_ISLNK(mode) else "a special file"
