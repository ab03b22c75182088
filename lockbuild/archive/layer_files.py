"""What a few files of an image are, without unpacking it: its layers are looked through from the top.

The same rules as in `changeset`, with one difference: a directory on the way to the files must not be a symbolic
link. Where one is, they count as not there.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.archive.changeset import OPAQUE, WHITEOUT
from lockbuild.archive.extract import reading, tar_members
from lockbuild.errors import IntegrityError

if TYPE_CHECKING:
    import tarfile


class LayerFiles:
    """Collects the regular files below ``directory`` (relative to the root) for which ``wanted`` says so of their path.

    Begin at the top. ``limit`` is how many bytes they may have together. ``found`` is what is known so far.
    """

    def __init__(self, directory: bytes, wanted: Callable[[bytes], bool], *, limit: int) -> None:
        self.found: dict[bytes, bytes] = {}
        self._directory = directory + b"/"
        self._wanted = wanted
        self._left = limit
        self._gone: set[bytes] = set()
        self._emptied: set[bytes] = set()

    def layer(self, stream: BinaryIO, origin: str) -> None:
        """Look through the next layer below, a tar that is not compressed, to its end.

        IntegrityError, which names ``origin``, where it is damaged or the files are too large.
        """
        files: dict[bytes, bytes | None] = {}
        gone: set[bytes] = set()
        emptied: set[bytes] = set()
        with reading(origin):
            for archive, member in tar_members(stream, origin):
                name = member.name.encode("utf-8", "surrogateescape")
                path = b"/".join(part for part in name.split(b"/") if part not in (b"", b"."))
                directory, slash, last = path.rpartition(b"/")
                if last == OPAQUE:
                    if self._concerns(directory):
                        emptied.add(directory)
                elif last.startswith(WHITEOUT):
                    hidden = directory + slash + last[len(WHITEOUT) :]
                    if self._concerns(hidden):
                        gone.add(hidden)
                elif path.startswith(self._directory) and self._wanted(path):
                    files[path] = self._content(archive, member, files, origin)
                elif not member.isdir() and self._concerns(path):
                    gone.add(path)
        for path, content in files.items():
            if content is not None and not self.is_decided(path):
                self.found[path] = content
        self._gone |= gone | {path for path, content in files.items() if content is None}
        self._emptied |= emptied

    def is_decided(self, path: bytes) -> bool:
        """Whether no layer further below can say anything of the file at ``path``."""
        if path in self.found or path in self._gone:
            return True
        above = path
        while above:
            above = above.rpartition(b"/")[0]
            if above in self._gone or above in self._emptied:
                return True
        return False

    def _concerns(self, path: bytes) -> bool:
        """Whether it is one of the directories that lead to the files, or stands below them."""
        return not path or self._directory.startswith(path + b"/") or path.startswith(self._directory)

    def _content(
        self,
        archive: tarfile.TarFile,
        member: tarfile.TarInfo,
        files: dict[bytes, bytes | None],
        origin: str,
    ) -> bytes | None:
        if member.islnk():  # to another one that is wanted; what it is else nobody kept
            target = member.linkname.encode("utf-8", "surrogateescape")
            return files.get(b"/".join(part for part in target.split(b"/") if part not in (b"", b".")))
        if not member.isreg():
            return None
        self._left -= member.size
        if self._left < 0:
            raise IntegrityError(f"{member.name!r} is too large to be what its name says", on=origin)
        data = archive.extractfile(member)
        return (data or io.BytesIO()).read()
