"""What git itself knows of a commit, as files: enough of a ``.git`` for ``git describe`` and ``git rev-parse``.

A function of the commit alone, the same bytes on every machine: the commit and its trees, an index that names every
file, and HEAD, detached at the commit. No history is in it, and no file's content, as that stands in the working
tree (but what git itself reads: its own files, and what links lead to). References, and with them what
``git describe`` says, come from the lock when the tree is made: see `lockbuild.environment.git`.
Formats: gitrepository-layout(5), gitformat-index(5), gitformat-pack(5).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.archive import gitpack
from lockbuild.archive.tarstream import CanonicalTar
from lockbuild.transport.git.objects import is_below

if TYPE_CHECKING:
    from lockbuild.transport.git.repositories import Entry, GitRepositories

_MODES = {"file": 0o100644, "executable": 0o100755, "symlink": 0o120000, "submodule": 0o160000}
_EXTENDED, _SKIP_WORKTREE = 0x4000, 0x4000
_ATTRIBUTES = b"* -text -eol -ident -filter -working-tree-encoding\n"
"""Files are as they stand in the object database: git must not take them for changed."""


def write_git_directory(
    repositories: GitRepositories, url: str, commit: str, out: BinaryIO, *, exclude: Sequence[str] = ()
) -> None:
    """Write the canonical tar of the git directory of ``commit``, which knows what is left out, to ``out``."""
    contents = repositories.contents(url, commit)
    objects: list[tuple[gitpack.Type, bytes]] = [("tree", data) for data in contents.trees.values()]
    read_by_git = [
        entry for entry in contents.entries if _is_read(entry) and not is_below(entry.path, exclude)
    ]
    with repositories.files(url, commit, read_by_git) as stream:
        objects += [("blob", b"".join(chunks)) for _, chunks in stream]
    # The commit stands apart, so that whoever makes the tree can read it without knowing packs.
    loose = gitpack.loose("commit", contents.commit.raw)
    packed = gitpack.pack(objects)
    files = {
        "HEAD": f"{commit}\n".encode(),
        "index": index(contents.entries, exclude),
        "info/attributes": _ATTRIBUTES,
        f"objects/{commit[:2]}/{commit[2:]}": loose,
        f"objects/pack/{packed.name}.idx": packed.index,
        f"objects/pack/{packed.name}.pack": packed.pack,
    }
    directories = {"info", "objects", f"objects/{commit[:2]}", "objects/pack", "refs"}
    tar = CanonicalTar(out)
    for name in sorted({*files, *directories}):
        if name in files:
            tar.file(name.encode(), len(files[name]), [files[name]])
        else:
            tar.directory(name.encode())
    tar.finish()


def _is_read(entry: Entry) -> bool:
    """Whether git reads the object and not the file: what a link leads to, and its own files."""
    name = entry.path.rpartition(b"/")[2]
    return entry.kind == "symlink" or (entry.kind == "file" and name in (b".gitattributes", b".gitmodules"))


def index(entries: Iterable[Entry], exclude: Sequence[str] = ()) -> bytes:
    """An index of the files without what stat(2) says of them: git looks at each one then.

    Those that are left out are marked as in a sparse checkout (which needs version 3): git does not miss them.
    """
    files = sorted((entry for entry in entries if entry.kind != "directory"), key=lambda entry: entry.path)
    sparse = [is_below(entry.path, exclude) for entry in files]
    parts = [struct.pack(">4sII", b"DIRC", 3 if any(sparse) else 2, len(files))]
    for entry, is_left_out in zip(files, sparse, strict=True):
        fixed = struct.pack(">6I", 0, 0, 0, 0, 0, 0) + struct.pack(">4I", _MODES[entry.kind], 0, 0, 0)
        length = min(len(entry.path), 0xFFF)
        flags = (
            struct.pack(">HH", length | _EXTENDED, _SKIP_WORKTREE)
            if is_left_out
            else struct.pack(">H", length)
        )
        name = bytes.fromhex(entry.object_id) + flags + entry.path
        record = fixed + name
        parts.append(record + bytes(8 - len(record) % 8))
    data = b"".join(parts)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()
