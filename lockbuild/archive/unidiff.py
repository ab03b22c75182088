"""Reads patches: unified diffs as ``diff -u`` and git write them.

Formats: POSIX.1-2024 ``diff``, "Unified format", and git's documentation, "Generating patch text with -p", whose
extended headers say what a unified diff cannot: modes, renames, copies. Paths lose their first component (``-p1``).
A patch is data that anybody may have written: no path of it leads out of the tree that it is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from lockbuild.errors import InvalidFileError, Problem

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_EPOCH = re.compile(rb"\t\s*(?:1970-01-01|1969-12-31) \d\d:\d\d")
"""How diff says, in any time zone, that a file is not there."""
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_MODES = {b"100644": False, b"100755": True}


@dataclass(frozen=True, slots=True)
class Hunk:
    """A place of a file: the lines ``old`` are to become ``new``, both with their line ends.

    ``start`` is the index of the first old line; ``line`` is where the hunk stands in the patch.
    ``leading`` and ``trailing`` count the lines of context before and after what changes.
    """

    line: int
    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    leading: int
    trailing: int


@dataclass(slots=True)
class FileChange:
    """What a patch does to one file.

    ``source`` is None where it makes a file, ``target`` where it removes one; they differ where it renames or
    (``keeps_source``) copies. ``executable`` is None where the mode stays. ``line`` is where it stands in the patch.
    """

    line: int
    source: bytes | None
    target: bytes | None
    keeps_source: bool = False
    executable: bool | None = None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> bytes:
        """The file, for messages."""
        return self.target or self.source or b""


def parse_patch(text: bytes, *, name: str) -> list[FileChange]:
    """What the patch does, file by file, in its order. ``name`` is what messages call it.

    InvalidFileError, naming the line, where it is cut short or malformed, changes nothing, leads out of the tree,
    or does what is not supported: binary files, symbolic links, submodules.
    """
    changes = list(_Parser(text, name).changes())
    if not changes:
        raise InvalidFileError(name, [Problem("", "it changes no file; a unified diff is needed")])
    return changes


class _Parser:
    def __init__(self, text: bytes, name: str) -> None:
        self._lines = text.split(b"\n")
        if self._lines[-1] == b"":
            self._lines.pop()
        self._name = name
        self._at = 0

    def changes(self) -> Iterator[FileChange]:
        """Everything between is prose: a mail's header, a commit's message, what ``diff -r`` says."""
        while self._at < len(self._lines):
            if self._line().startswith(b"diff --git "):
                yield self._git()
            elif self._has_file_header():
                change = self._traditional()
                self._hunks(change)
                yield change
            else:
                self._check_prose(self._line())
                self._at += 1

    def _check_prose(self, line: bytes) -> None:
        """What would be left out in silence is no prose."""
        if _HUNK.match(line):
            self._fail("there is a hunk, but no file is named before it")
        if line.startswith(b"Binary files ") and line.rstrip().endswith(b" differ"):
            self._fail("it changes a binary file, which is not supported")
        if line.startswith((b"diff --cc ", b"diff --combined ")):
            self._fail("it is the diff of a merge, which is not supported")

    def _line(self, ahead: int = 0) -> bytes:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def _has_file_header(self) -> bool:
        return (
            self._line().startswith(b"--- ")
            and self._line(1).startswith(b"+++ ")
            and self._line(2).startswith(b"@@ ")
        )

    def _fail(self, message: str, line: int | None = None) -> NoReturn:
        raise InvalidFileError(
            self._name, [Problem(f"line {(self._at if line is None else line) + 1}", message)]
        )

    # Files

    def _traditional(self) -> FileChange:
        line = self._at
        old, new = self._line(), self._line(1)
        hunk = _HUNK.match(self._line(2))
        source, target = self._header_path(old), self._header_path(new, 1)
        if hunk and _EPOCH.search(old) and hunk[1] == b"0" and hunk[2] == b"0":
            source = None
        if hunk and _EPOCH.search(new) and hunk[3] == b"0" and hunk[4] == b"0":
            target = None
        if source is None and target is None:
            self._fail("it names no file")
        self._at += 2
        if source is not None and target is not None:
            source = target  # as a.orig becomes a: without git's headers nothing is renamed
        return FileChange(line, source, target)

    def _git(self) -> FileChange:
        start = self._at
        self._at += 1
        change = FileChange(start, None, None)
        made = removed = False
        while True:
            line = self._line().rstrip(b"\r")
            key, value = _extended(line)
            if key in (b"new file mode", b"new mode"):
                change.executable = self._mode(value)
                made |= key == b"new file mode"
            elif key in (b"deleted file mode", b"old mode"):
                self._mode(value)
                removed |= key == b"deleted file mode"
            elif key in (b"rename from", b"copy from"):
                change.source = self._path(value, strip=0)
                change.keeps_source = key == b"copy from"
            elif key in (b"rename to", b"copy to"):
                change.target = self._path(value, strip=0)
            elif key in (b"GIT binary patch", b"Binary files"):
                self._fail("it changes a binary file, which is not supported")
            elif key is None:
                break
            self._at += 1
        if self._has_file_header():
            if change.source is None and change.target is None:
                change.source, change.target = (
                    self._header_path(self._line()),
                    self._header_path(self._line(1), 1),
                )
            self._at += 2
            self._hunks(change)
        elif change.source is None and change.target is None:
            change.source = change.target = self._same_path(self._lines[start], start)
        if made:
            change.source = None
        if removed:
            change.target = None
        if change.source is None and change.target is None:
            self._fail("it names no file", start)
        return change

    def _mode(self, value: bytes) -> bool:
        if value not in _MODES:
            kinds = {b"120000": "a symbolic link", b"160000": "a submodule"}
            kind = kinds.get(value, f"a file of the mode {value.decode('latin-1')!r}")
            self._fail(f"it changes {kind}, which is not supported")
        return _MODES[value]

    # Paths

    def _header_path(self, line: bytes, ahead: int = 0) -> bytes | None:
        """The path of a ``---`` or ``+++`` line, which may be followed by a tab and a time."""
        text = line[4:].rstrip(b"\r")
        quoted = _QUOTED.match(text)
        text = quoted[0] if quoted else text.partition(b"\t")[0]
        return None if text == b"/dev/null" else self._path(text, strip=1, ahead=ahead)

    def _same_path(self, line: bytes, at: int) -> bytes:
        """The path of a ``diff --git`` line that names it twice, with the prefixes that git adds."""
        text = line[len(b"diff --git ") :].rstrip(b"\r")
        if quoted := _QUOTED.match(text):
            text = quoted[0]
        else:
            half = text[: len(text) // 2]
            if text[len(half) + 1 :].partition(b"/")[2] != half.partition(b"/")[2]:
                self._fail("it is not clear which file is meant", at)
            text = half
        return self._path(text, strip=1)

    def _path(self, text: bytes, *, strip: int, ahead: int = 0) -> bytes:
        at = self._at + ahead
        path = _unquoted(text) if _QUOTED.fullmatch(text) else text
        shown = path.decode("utf-8", "backslashreplace")
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if path.startswith(b"/") or b".." in parts or b"\0" in path:
            self._fail(f"the path {shown!r} leads out of the tree", at)
        if len(parts) <= strip:
            self._fail(f"the path {shown!r} has no first component to drop, as in 'a/file' (-p1)", at)
        return b"/".join(parts[strip:])

    # Hunks

    def _hunks(self, change: FileChange) -> None:
        while match := _HUNK.match(self._line()):
            change.hunks.append(self._hunk(match))

    def _hunk(self, match: re.Match[bytes]) -> Hunk:
        at = self._at
        start = int(match[1])
        olds, news = (1 if match[group] is None else int(match[group]) for group in (2, 4))
        old: list[bytes] = []
        new: list[bytes] = []
        leading = trailing = 0
        changed = False
        self._at += 1
        while len(old) < olds or len(new) < news:
            if self._at >= len(self._lines):
                self._fail("the patch ends in the middle of a hunk", at)
            line = self._line() or b" "  # mail programs drop a blank at the end of a line
            kind, text = line[:1], line[1:] + b"\n"
            if kind not in (b" ", b"-", b"+"):
                self._fail("the hunk has fewer lines than it says")
            if kind in (b" ", b"-"):
                old.append(text)
            if kind in (b" ", b"+"):
                new.append(text)
            if kind == b" ":
                leading, trailing = leading + (not changed), trailing + 1
            else:
                changed, trailing = True, 0
            self._at += 1
            if self._line().startswith(b"\\"):  # "\ No newline at end of file", in the user's language
                for lines, kinds in ((old, b" -"), (new, b" +")):
                    if kind in kinds:
                        lines[-1] = lines[-1].removesuffix(b"\n")
                self._at += 1
        if len(old) > olds or len(new) > news:
            self._fail("the hunk has more lines than it says", at)
        if not changed:
            self._fail("the hunk changes nothing", at)
        return Hunk(at + 1, start - 1 if olds else start, tuple(old), tuple(new), leading, trailing)


_EXTENDED = (
    b"old mode", b"new mode", b"deleted file mode", b"new file mode", b"copy from", b"copy to",
    b"rename from", b"rename to", b"similarity index", b"dissimilarity index", b"index",
    b"GIT binary patch", b"Binary files",
)  # fmt: skip


def _extended(line: bytes) -> tuple[bytes | None, bytes]:
    """A line of git's extended header as key and value; None for the key where it is none."""
    for key in _EXTENDED:
        if line == key or line.startswith(key + b" "):
            return key, line[len(key) + 1 :]
    return None, b""


def _unquoted(text: bytes) -> bytes:
    """A path that git put in quotes, as C would write it."""

    def plain(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 8) & 0xFF])
        return _ESCAPED.get(match[2], match[2])

    return _ESCAPE.sub(plain, text[1:-1])
