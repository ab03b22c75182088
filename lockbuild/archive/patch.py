"""Applies a patch to a tree: exactly, or not at all.

A hunk may stand at other lines than it says (files grow), but every line of it must be there as it is (no fuzz),
in order. Of several places the nearest is taken, of two as near the later one: the result is a function of patch
and tree. Nothing is written through a symbolic link, and a file with other names (hard links) keeps them as they are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from lockbuild.archive.unidiff import FileChange, Hunk, parse_patch
from lockbuild.errors import ResolveError, storage_error


def apply_patch(text: bytes, root: Path, *, name: str) -> None:
    """Do to the tree at ``root`` what the patch ``text`` says; ``name`` is what messages call it.

    ResolveError, naming file and hunk, where it does not fit the tree; InvalidFileError as `parse_patch`;
    FetchError where the file system does not let it. After an error the tree holds a part.
    """
    for change in parse_patch(text, name=name):
        try:
            _Change(change, root, name).apply()
        except OSError as error:
            raise storage_error(error, "cannot patch", on=f"{name}: {_shown(change.path)}") from error


class _Change:
    def __init__(self, change: FileChange, root: Path, name: str) -> None:
        self._change = change
        self._root = os.fsencode(root)
        self._name = name

    def apply(self) -> None:
        change = self._change
        old, executable = (b"", False) if change.source is None else self._read(change.source)
        new = self._patched(old)
        if change.target is None:
            assert change.source is not None
            if new:
                raise self._failed("it is to be removed, but has more in it than the patch knows")
            self._remove(change.source)
            return
        if change.target != change.source and self._status(change.target) is not None:
            raise self._failed("it is to be made, but is there already")
        self._write(
            change.target, new, executable=executable if change.executable is None else change.executable
        )
        if change.source not in (None, change.target) and not change.keeps_source:
            assert change.source is not None
            self._remove(change.source)

    def _failed(self, what: str) -> ResolveError:
        return ResolveError(
            f"the patch does not fit: {what}",
            on=f"{self._name}: {_shown(self._change.path)}",
            hint="make the patch anew against this version, or leave it out if upstream has the change",
        )

    # Files

    def _status(self, path: bytes) -> os.stat_result | None:
        """What stands at ``path``; ResolveError where the way there is a link or a file."""
        parts = path.split(b"/")
        for end in range(1, len(parts)):
            directory = b"/".join(parts[:end])
            try:
                mode = os.lstat(self._root + b"/" + directory).st_mode
            except FileNotFoundError:
                return None
            if not stat.S_ISDIR(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "a file"
                raise self._failed(f"{_shown(directory)} on the way there is {kind}")
        try:
            return os.lstat(self._root + b"/" + path)
        except FileNotFoundError:
            return None

    def _read(self, path: bytes) -> tuple[bytes, bool]:
        status = self._status(path)
        if status is None:
            raise self._failed(f"there is no file {_shown(path)}")
        if not stat.S_ISREG(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a directory"
            raise self._failed(f"{_shown(path)} is {kind}")
        return self._path(path).read_bytes(), bool(status.st_mode & 0o111)

    def _path(self, path: bytes) -> Path:
        return Path(os.fsdecode(self._root), os.fsdecode(path))

    def _write(self, path: bytes, data: bytes, *, executable: bool) -> None:
        file = self._path(path)
        self._make_directory(file.parent)
        file.unlink(missing_ok=True)  # and not written into: another name may be the same file
        file.write_bytes(data)
        file.chmod(0o755 if executable else 0o644)

    def _make_directory(self, directory: Path) -> None:
        if not directory.is_dir():
            self._make_directory(directory.parent)
            directory.mkdir()
            directory.chmod(0o755)  # whatever the umask

    def _remove(self, path: bytes) -> None:
        """Remove the file and, as git does, the directories that it leaves empty."""
        file = self._path(path)
        file.unlink()
        root = Path(os.fsdecode(self._root))
        for directory in file.parents:
            if directory == root or any(directory.iterdir()):
                break
            directory.rmdir()

    # Lines

    def _patched(self, old: bytes) -> bytes:
        lines = old.split(b"\n")
        lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
        result: list[bytes] = []
        done = drift = 0
        for number, hunk in enumerate(self._change.hunks, 1):
            place = _find(hunk, lines, done, drift)
            if place is None:
                raise self._unfit(number, hunk, lines, done, drift)
            result += lines[done:place]
            result += hunk.new
            done = place + len(hunk.old)
            if hunk.new and not hunk.new[-1].endswith(b"\n") and done < len(lines):
                raise self._failed(
                    f"hunk {number} (line {hunk.line} of the patch) ends the file in its middle"
                )
            drift = place - hunk.start
        return b"".join(result + lines[done:])

    def _unfit(self, number: int, hunk: Hunk, lines: Sequence[bytes], done: int, drift: int) -> ResolveError:
        what = f"hunk {number} (line {hunk.line} of the patch)"
        place = hunk.start + drift
        if hunk.new and tuple(lines[place : place + len(hunk.new)]) == hunk.new:
            return self._failed(f"{what} is applied already at line {place + 1}")
        if any(line.endswith(b"\r\n") for line in hunk.old) != any(line.endswith(b"\r\n") for line in lines):
            return self._failed(f"{what} has other line ends (CR LF or LF) than the file")
        for index, wanted in enumerate(hunk.old):
            found = lines[place + index] if 0 <= place + index < len(lines) else None
            if found != wanted:
                there = "the file ends" if found is None else f"there is {_quoted(found)}"
                return self._failed(
                    f"{what} fits nowhere; at line {place + index + 1} it wants {_quoted(wanted)}, but {there}"
                )
        return self._failed(f"{what} fits nowhere after the hunk before it")


def _find(hunk: Hunk, lines: Sequence[bytes], done: int, drift: int) -> int | None:
    """The index of the line where ``hunk`` fits; None where it fits nowhere."""
    place = hunk.start + drift
    if done <= place and _fits(hunk, lines, place):
        return place
    if not hunk.leading and not hunk.trailing:
        return None  # what has no context says nothing about another place
    last = len(lines) - len(hunk.old)
    for other in _nearest(place, done, last):
        # With less context on one side than on the other it stands at the beginning or at the end of the file.
        if hunk.leading < hunk.trailing and other != 0:
            continue
        if hunk.trailing < hunk.leading and other != last:
            continue
        if _fits(hunk, lines, other):
            return other
    return None


def _nearest(place: int, first: int, last: int) -> Iterator[int]:
    """The indexes from ``first`` to ``last`` but ``place``, the nearest to it first, of two the later."""
    for distance in range(1, max(place - first, last - place) + 1):
        if first <= place + distance <= last:
            yield place + distance
        if first <= place - distance <= last:
            yield place - distance


def _fits(hunk: Hunk, lines: Sequence[bytes], place: int) -> bool:
    end = place + len(hunk.old)
    return place >= 0 and end <= len(lines) and tuple(lines[place:end]) == hunk.old


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _quoted(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "backslashreplace").rstrip("\r\n"))
