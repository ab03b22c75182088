"""The canonical tar of a directory tree, and the digest of a tree that it defines.

One digest names a tree everywhere: the SHA-256 of its canonical tar, which is by definition the
*diff ID* of the OCI layer made from it (OCI image specification, config.md). The stream depends
on nothing but names, kinds, contents, link targets and whether a file is executable:

- every entry below the root, not the root itself; relative names, directories with a trailing slash;
- sorted by the bytes of the whole path, the trailing slash not counted;
- uid and gid 0 without names, mtime 0; modes 0755 (directories, executable files), 0644, links 0777;
- a hard link is a file of its own;
- a pax header only where a field does not fit; two zero blocks at the end (see `ustar`).
"""

# Names are bytes here, which pathlib does not take.
# ruff: noqa: PTH115
from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest

_CHUNK = 4 << 20
_WHITEOUT = b".wh."


class Entry(NamedTuple):
    """One entry of a tree: its ``name`` relative to the root, and what lstat says."""

    name: bytes
    status: os.stat_result


def scan(root: Path, *, visit: Callable[[bytes, os.stat_result], None] | None = None) -> list[Entry]:
    """Every entry below ``root`` in canonical order. ``visit`` gets each one's absolute path first,
    a directory before it is read.

    IntegrityError for what has no place in a layer: devices, fifos, sockets, names that start with
    ``.wh.`` (whiteouts).
    """
    entries: list[Entry] = []
    try:
        _walk(os.fsencode(root), entries, visit)
    except OSError as error:
        raise _unreadable(root, error) from error
    entries.sort(key=lambda entry: entry.name)
    return entries


def _walk(root: bytes, entries: list[Entry], visit: Callable[[bytes, os.stat_result], None] | None) -> None:
    pending = [b""]
    while pending:
        parent = pending.pop()
        with os.scandir(root + b"/" + parent) as listing:
            for item in listing:
                name = parent + item.name
                status = item.stat(follow_symlinks=False)
                if item.name.startswith(_WHITEOUT):
                    raise _refusal(name, "its name would delete files when it is a layer (a whiteout)")
                if visit is not None:
                    visit(item.path, status)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(name + b"/")
                elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                    raise _refusal(name, "it is neither a file, a directory nor a symbolic link")
                entries.append(Entry(name, status))


def write_canonical_tar(root: Path, out: BinaryIO, *, only: str | None = None) -> None:
    """Write the canonical tar of the directory ``root`` to ``out``.

    With ``only`` (a path relative to ``root``) no more than that entry, what is below it and the
    directories that lead to it. Needs 4 MiB of memory and the list of names. IntegrityError as
    `scan`, and for a file whose size changes meanwhile.
    """
    for rest in canonical_chunks(root, only=only):
        while rest:
            rest = rest[out.write(rest) :]


def canonical_chunks(
    root: Path, *, only: str | None = None, entries: Sequence[Entry] | None = None
) -> Iterator[memoryview]:
    """The same as pieces of at most 4 MiB, each of which is good until the next one is asked for. ``entries`` are what
    `scan` found, where that was done already."""
    entries = scan(root) if entries is None else entries
    if only is not None:
        entries = _only(entries, os.fsencode(only).strip(b"/"))
    buffer = memoryview(bytearray(_CHUNK))
    for length in _fill(root, entries, lambda: buffer):
        yield buffer[:length]


def tree_digest(root: Path) -> Digest:
    """The SHA-256 of the canonical tar of the directory ``root``; IntegrityError as `write_canonical_tar`."""
    return entries_digest(root, scan(root))


def entries_digest(root: Path, entries: Sequence[Entry], *, step: Callable[[], None] | None = None) -> Digest:
    """The same for ``entries`` that `scan` found below ``root``. ``step`` is called every few megabytes; what it
    raises ends the work.

    A second thread hashes while this one reads: hashing four megabytes at a time it holds the
    interpreter's lock for almost none of it.
    """
    import hashlib
    from concurrent.futures import Future, ThreadPoolExecutor

    hasher = hashlib.sha256()
    buffers = [memoryview(bytearray(_CHUNK)) for _ in range(2)]
    with ThreadPoolExecutor(1, thread_name_prefix="hash") as pool:
        # Two buffers take turns. The one handed to the hasher may be filled again only when the
        # next one has been filled and the hashing of the first has ended.
        hashing: Future[None] | None = None
        for length in _fill(root, entries, lambda: buffers[0]):
            if hashing is not None:
                hashing.result()
            if step is not None:
                step()
            hashing = pool.submit(hasher.update, buffers[0][:length])
            buffers.reverse()
    return Digest(hasher.hexdigest())


def _only(entries: Sequence[Entry], wanted: bytes) -> list[Entry]:
    chosen = [
        entry
        for entry in entries
        if entry.name == wanted
        or entry.name.startswith(wanted + b"/")
        or wanted.startswith(entry.name + b"/")
    ]
    if not chosen or chosen[-1].name < wanted:
        raise _refusal(wanted, "there is no such entry")
    return chosen


def _fill(root: Path, entries: Sequence[Entry], buffer: Callable[[], memoryview]) -> Iterator[int]:
    """Lay the stream into the buffer that ``buffer`` names now; yield how much of it is filled each
    time it is full, and at the end. All buffers have the same size."""
    try:
        yield from _layout(os.fsencode(root) + b"/", entries, buffer)
    except OSError as error:
        raise _unreadable(root, error) from error


def _layout(base: bytes, entries: Sequence[Entry], buffer: Callable[[], memoryview]) -> Iterator[int]:
    view = buffer()
    room = len(view)
    at = 0
    for name, status in entries:
        mode = status.st_mode
        size = 0
        if stat.S_ISREG(mode):
            size = status.st_size
            head = ustar.file_header(name, size, executable=bool(mode & 0o111))
        elif stat.S_ISDIR(mode):
            head = ustar.directory_header(name)
        else:
            head = ustar.symlink_header(name, os.readlink(base + name))
        if at + len(head) > room:
            yield at
            view, at = buffer(), 0
        view[at : at + len(head)] = head
        at += len(head)
        if not size:
            continue
        descriptor = os.open(base + name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            left = size
            while left:
                if at == room:
                    yield at
                    view, at = buffer(), 0
                count = os.readv(descriptor, [view[at : at + left]])
                if not count:
                    raise _refusal(name, "it became shorter while it was read")
                at += count
                left -= count
        finally:
            os.close(descriptor)
        pad = ustar.padding(size)
        if at + pad > room:
            yield at
            view, at = buffer(), 0
        view[at : at + pad] = bytes(pad)
        at += pad
    if at + len(ustar.END) > room:
        yield at
        view, at = buffer(), 0
    view[at : at + len(ustar.END)] = ustar.END
    yield at + len(ustar.END)


def _unreadable(root: Path, error: OSError) -> IntegrityError:
    place = os.fsdecode(error.filename) if error.filename is not None else str(root)
    return IntegrityError(f"the tree cannot be read: {error.strerror or error}", on=place)


def _refusal(name: bytes, why: str) -> IntegrityError:
    shown = os.fsdecode(name)
    return IntegrityError(f"the tree has an entry that an archive cannot hold: {why}", on=repr(shown)[1:-1])
