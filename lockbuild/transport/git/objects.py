"""Git's objects as they stand in a repository, each hashed again when it is read.

Formats: gitformat-pack(5), "Object types"; the object id is the SHA-1 of ``<type> <size>\\0<content>``. What a tree
may name is as strict as ``git fsck``: a name is one component, and never ``.git`` in any spelling.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Literal

from lockbuild.errors import IntegrityError
from lockbuild.transport.git.process import Git

Kind = Literal["directory", "file", "executable", "symlink", "submodule"]
Type = Literal["commit", "tree", "blob", "tag"]
SMALL = 64 << 20
"""How large an object may be that is read into memory."""
_CHUNK = 1 << 20
_WINDOW = 256
"""Requests that are under way at once: no more than fit into a pipe, so that neither side waits for the other."""
_KINDS: dict[bytes, Kind] = {
    b"40000": "directory",
    b"040000": "directory",  # written by old or foreign tools
    b"100644": "file",
    b"100664": "file",  # of the first days of git
    b"100755": "executable",
    b"120000": "symlink",
    b"160000": "submodule",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a tree: its ``path`` (in what was listed), what it is, and its object or commit."""

    path: bytes
    kind: Kind
    object_id: str


@dataclass(frozen=True, slots=True)
class Commit:
    """What of a commit is needed: its tree, and when it was committed (aware, UTC)."""

    object_id: str
    tree: str
    time: datetime
    raw: bytes


class MissingObjectsError(Exception):
    """The repository does not have some objects."""

    def __init__(self, object_ids: Sequence[str]) -> None:
        super().__init__(f"{len(object_ids)} objects are missing")
        self.object_ids = tuple(object_ids)


class Objects:
    """Reads objects of one repository through one process; for one thread. See `reading`."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], origin: str, repository: Path) -> None:
        self._requests = requests
        self._answers = answers
        self._origin = origin
        self._repository = repository

    def commit(self, object_id: str) -> Commit:
        """The commit of that id."""
        raw = self.one(object_id, "commit")
        fields = dict(line.partition(b" ")[::2] for line in reversed(raw.partition(b"\n\n")[0].split(b"\n")))
        try:
            seconds = int(fields[b"committer"].rpartition(b"> ")[2].split(b" ")[0])
            time = datetime.fromtimestamp(seconds, UTC)
            return Commit(object_id, _id(fields[b"tree"].decode("ascii")), time, raw)
        except (KeyError, ValueError, OverflowError, OSError, UnicodeDecodeError):
            raise self._unsound(object_id, "is not a sound commit") from None

    def tree(self, object_id: str, at: bytes = b"") -> list[Entry]:
        """The entries of one tree, whose own path is ``at``."""
        return self._parsed(object_id, self.one(object_id, "tree"), at)

    def all_trees(self, object_id: str) -> tuple[list[Entry], dict[str, bytes]]:
        """Every entry of a tree and of those below it, and each tree's content by its id."""
        entries: list[Entry] = []
        contents: dict[str, bytes] = {}
        level = [(b"", object_id)]
        while level:
            new = [oid for oid in dict.fromkeys(oid for _, oid in level) if oid not in contents]
            contents.update(self.several(new, "tree"))
            deeper: list[tuple[bytes, str]] = []
            for at, oid in level:
                for entry in self._parsed(oid, contents[oid], at):
                    entries.append(entry)
                    if entry.kind == "directory":
                        deeper.append((entry.path, entry.object_id))
            if len(entries) > 5_000_000 or (deeper and deeper[0][0].count(b"/") > 500):
                raise self._unsound(object_id, "has more entries than any honest tree")
            level = deeper
        return entries, contents

    def one(self, object_id: str, wanted: Type) -> bytes:
        """The content of a small object."""
        return next(self.several([object_id], wanted))[1]

    def several(self, object_ids: Iterable[str], wanted: Type) -> Iterator[tuple[str, bytes]]:
        """The same for several."""
        for oid, size, chunks in self.stream(object_ids, wanted):
            if size > SMALL:
                raise self._unsound(oid, f"has {size:,} bytes, too many for what it is")
            yield oid, b"".join(chunks)

    def stream(
        self, object_ids: Iterable[str], wanted: Type = "blob"
    ) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Id, size and content of each, in order; the content has to be read before the next.

        It is hashed as it is read: IntegrityError at its end where it is not what its id says.
        """
        waiting: list[str] = []
        more = iter(object_ids)
        ended = False
        while True:
            while not ended and len(waiting) < _WINDOW:
                oid = next(more, None)
                if oid is None:
                    ended = True
                    break
                waiting.append(_id(oid))
                self._requests.write(f"{oid}\n".encode())
            if not waiting:
                return
            self._requests.flush()
            for oid in waiting:
                yield self._answer(oid, wanted)
            waiting = []

    def _answer(self, oid: str, wanted: Type) -> tuple[str, int, Iterator[bytes]]:
        head = self._answers.readline().split()
        if head == [oid.encode(), b"missing"]:
            raise MissingObjectsError([oid])
        if len(head) != 3 or head[0] != oid.encode():
            raise self._damaged(oid, "cannot be read")
        if head[1] != wanted.encode():
            raise self._unsound(oid, f"is a {head[1].decode('ascii', 'replace')}, not a {wanted}")
        size = int(head[2])
        return oid, size, self._content(oid, wanted, size)

    def _content(self, oid: str, wanted: Type, size: int) -> Iterator[bytes]:
        hasher = hashlib.sha1(f"{wanted} {size}\0".encode(), usedforsecurity=False)
        left = size
        while left:
            chunk = self._answers.read(min(left, _CHUNK))
            if not chunk:
                raise self._damaged(oid, "cannot be read to its end")
            left -= len(chunk)
            hasher.update(chunk)
            yield chunk
        self._answers.read(1)
        if hasher.hexdigest() != oid:
            raise self._damaged(oid, f"is damaged: its bytes have the id {hasher.hexdigest()}")

    def _parsed(self, oid: str, data: bytes, at: bytes) -> list[Entry]:
        try:
            return list(_entries(data, at))
        except ValueError as error:
            raise self._unsound(oid, f"is not a sound tree: {error}") from None

    def _damaged(self, oid: str, why: str) -> IntegrityError:
        error = self._unsound(oid, why)
        error.hint = f"the cache is damaged; remove the directory {self._repository.parent} and try again"
        return error

    def _unsound(self, oid: str, why: str) -> IntegrityError:
        return IntegrityError(f"the git object {oid} {why}", on=self._origin)


@contextmanager
def reading(git: Git, repository: Path, origin: str) -> Iterator[Objects]:
    """The objects of ``repository``, which messages call ``origin``."""
    process = git.start(["cat-file", "--batch"], repository=repository, stdin=subprocess.PIPE)
    with git.ending(process):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Objects(process.stdin, process.stdout, origin, repository)
        except BrokenPipeError:
            raise IntegrityError("git ended before it had read every object", on=origin) from None


def absent(git: Git, repository: Path, object_ids: Iterable[str]) -> list[str]:
    """Those of the objects that the repository does not have."""
    unique = list(dict.fromkeys(object_ids))
    if not unique:
        return []
    answer = git.run(
        ["cat-file", "--batch-check=%(objectname)"],
        repository=repository,
        stdin="".join(f"{oid}\n" for oid in unique).encode(),
    )
    return [line.split()[0].decode() for line in answer.splitlines() if line.endswith(b" missing")]


def is_below(path: bytes, places: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``places`` or stands below one."""
    return any(path == place or path.startswith(place + b"/") for place in map(os.fsencode, places))


def is_object_id(text: str) -> bool:
    """Whether it is a full object id (SHA-1)."""
    return len(text) == 40 and all(character in "0123456789abcdef" for character in text)


def _id(text: str) -> str:
    if not is_object_id(text):
        raise ValueError(f"{text!r} is not an object id")
    return text


def _entries(data: bytes, at: bytes) -> Iterator[Entry]:
    """The entries of a tree's content; ValueError where git would not have written it."""
    position = 0
    before = b""
    seen: set[bytes] = set()
    while position < len(data):
        end = data.index(b"\0", position)
        mode, _, name = data[position:end].partition(b" ")
        position = end + 21
        if position > len(data):
            raise ValueError("it is cut short")
        kind = _KINDS.get(mode)
        if kind is None:
            raise ValueError(f"an entry has the mode {mode.decode('ascii', 'replace')!r}")
        if name in (b"", b".", b"..") or b"/" in name or _is_dot_git(name):
            raise ValueError(f"an entry is called {name.decode('utf-8', 'backslashreplace')!r}")
        if name in seen:
            raise ValueError(f"two entries are called {name.decode('utf-8', 'backslashreplace')!r}")
        seen.add(name)
        key = name + b"/" if kind == "directory" else name
        if key < before:
            raise ValueError("its entries are not in order")
        before = key
        yield Entry(at + b"/" + name if at else name, kind, data[end + 1 : position].hex())


def _is_dot_git(name: bytes) -> bool:
    """Whether some file system takes the name for ``.git``: without regard to case, on NTFS, on HFS+."""
    folded = name.lower().rstrip(b". ").partition(b":")[0].rstrip(b". ")
    if folded in (b".git", b"git~1") or name.lower() == b".git":
        return True
    if name.isascii():
        return False
    text = name.decode("utf-8", "replace")
    return "".join(c for c in text if unicodedata.category(c) != "Cf").lower() == ".git"
