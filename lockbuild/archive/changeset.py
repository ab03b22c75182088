"""Applies the layers of an image, one on the other, to one directory.

OCI image specification 1.1, layer.md: each layer is a tar of what it adds or replaces; ``.wh.NAME`` says that NAME of
the layers below is gone, ``.wh..wh..opq`` that of its whole directory nothing of them is left. Both are about the
layers below, whatever their turn in the tar. An entry replaces what stands at its name, unless both are directories.

The specification does not say what a name means that leads through a symbolic link. Here it is as with engines that
unpack each layer by itself and lay them over one another (overlayfs: Docker, containerd, Podman): links of its own
layer are followed, as in a root file system (see `TreeWriter`, policy *rooted*); a link of a layer below gives way to
a directory, and so does a file. Only a hard link finds its target through any link.

Layers come from anywhere, so it is made sure that nothing outside of the root is touched, and that no small layer
makes work without end: below one directory there is something to hide only once for each layer.

Device nodes, fifos and sockets are left out: no process may use them in a sandbox that is not given them, and a
canonical tar cannot hold them. Set-user-ID bits, owners, times and extended attributes are left out as everywhere.
"""

# Names are bytes here, which pathlib does not take.
# ruff: noqa: PTH102, PTH106, PTH108
from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.archive.extract import reading, tar_members
from lockbuild.archive.treewriter import LIMIT, TreeWriter

if TYPE_CHECKING:
    import tarfile

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
_AUFS = b".wh..wh."
"""What AUFS kept beside the files for itself; of all that only the opaque marker means something."""
_SHOWN = 3


class ChangesetWriter(TreeWriter):
    """Writes the entries of layers below ``root``, an existing, empty directory; begin each with `layer`.

    ``left_out`` counts the entries that the root cannot have; ``left_out_names`` has some of their names.
    Directories keep the times that they come to have. Errors as those of `TreeWriter`.
    """

    def __init__(self, root: Path, *, origin: str, limit: int = LIMIT) -> None:
        super().__init__(root, origin=origin, rooted=True, limit=limit)
        self.left_out = 0
        self.left_out_names: list[str] = []
        self._lowest = True
        self._made: set[bytes] = set()
        self._hidden: set[bytes] = set()

    def layer(self, origin: str, *, lowest: bool) -> None:
        """From here on entries are of another layer. Below the ``lowest`` one there is nothing to hide."""
        self.origin = origin
        self._lowest = lowest
        self._made = set()
        self._hidden = set()
        self._directories = {b"": b""}

    def directory(self, name: bytes | str) -> None:
        """Make the directory ``name`` where it does not stand yet, instead of whatever else does."""
        parts = self._begin(name)
        if not parts:
            return
        try:
            path = self._spot(parts)
            try:
                if not stat.S_ISDIR(os.lstat(path).st_mode):
                    self._remove(path)
                    os.mkdir(path)
            except FileNotFoundError:
                os.mkdir(path)
            os.chmod(path, 0o755)  # noqa: PTH101, S103  whatever the umask
            self._note(path)
        except OSError as error:
            raise self._failed(error) from error

    def hardlink(self, name: bytes | str, target: bytes | str) -> None:
        """Make ``name`` the same file as ``target``, which this layer or one below has."""
        parts = self._begin(name)
        goal = self._parts(_relative(target), "the target of the hard link")
        if len(goal) > len(parts) and goal[: len(parts)] == parts:
            raise self.refuse("the hard link would replace the directory that it leads into")
        super().hardlink(name, b"/".join(goal))

    def leave_out(self, name: bytes | str) -> None:
        """An entry that the root cannot have: nothing stands there."""
        parts = self._begin(name)
        self.left_out += 1
        if self.left_out <= _SHOWN:
            self.left_out_names.append(os.fsdecode(b"/" + b"/".join(parts)))
        try:
            path = self._spot(parts)
            if os.path.lexists(path):
                self._remove(path)
        except OSError as error:
            raise self._failed(error) from error

    def whiteout(self, name: bytes | str) -> None:
        """Hide what the marker ``name`` says of the layers below."""
        *above, marker = self._begin(name)
        if marker.startswith(_AUFS) and marker != OPAQUE:
            return
        hidden = marker[len(WHITEOUT) :]
        if hidden in (b"", b".", b".."):
            raise self.refuse("the whiteout names nothing")
        try:
            directory = self._find(above)
            if self._lowest:
                return
            if marker == OPAQUE:
                self._hide_below(directory)
                return
            place = directory + b"/" + hidden if directory else hidden
            if not os.path.lexists(self._base + place):
                return
            if place not in self._made:
                self._remove(self._base + place)
            elif stat.S_ISDIR(os.lstat(self._base + place).st_mode):
                self._hide_below(place)
        except OSError as error:
            raise self._failed(error) from error

    def finish(self) -> None:
        """Nothing: what was made in a directory may have been replaced by a link since."""

    def _find(self, parts: list[bytes], *, create: bool = True) -> bytes:
        return super()._find(parts) if create else self._walk(parts, create=False)

    def _mode(self, place: bytes, create: bool) -> int:
        mode = super()._mode(place, create)
        if not create or self._lowest or stat.S_ISDIR(mode) or place in self._made:
            return mode
        self._remove(self._base + place)
        mode = super()._mode(place, create)
        self._note(self._base + place)
        return mode

    def _place(self, parts: list[bytes], *, link: bool = False) -> bytes:
        path = self._spot(parts)
        if os.path.lexists(path):
            self._remove(path)
        self._note(path)
        return path

    def _note(self, path: bytes) -> None:
        """This layer has made what stands at ``path``, and thereby the directories that lead there."""
        if self._lowest:
            return
        place = path[len(self._base) :]
        while place and place not in self._made:
            self._made.add(place)
            place = place.rpartition(b"/")[0]

    def _hide_below(self, directory: bytes) -> None:
        """Remove everything below ``directory`` that this layer has not made."""
        place = directory
        while place:
            if place in self._hidden:
                return
            place = place.rpartition(b"/")[0]
        if b"" in self._hidden:
            return
        pending = [directory]
        while pending:
            here = pending.pop()
            with os.scandir(self._base + here) as listing:
                entries = [(item.name, item.is_dir(follow_symlinks=False)) for item in listing]
            for name, is_directory in entries:
                place = here + b"/" + name if here else name
                if place not in self._made:
                    self._remove(self._base + place)
                elif is_directory and place not in self._hidden:
                    pending.append(place)
        self._hidden.add(directory)

    def _remove(self, path: bytes) -> None:
        """Remove what stands at ``path``, with all that is below it; no link is followed."""
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            os.unlink(path)
            return
        # Some names may have been found through it.
        self._directories = {b"": b""}
        self._real = {b""}
        if not stat.S_ISDIR(mode):
            os.unlink(path)
            return
        directories = [path]
        for directory in directories:
            with os.scandir(directory) as listing:
                for item in listing:
                    if item.is_dir(follow_symlinks=False):
                        directories.append(item.path)
                    else:
                        os.unlink(item.path)
        for directory in reversed(directories):
            os.rmdir(directory)


def apply_layer(stream: BinaryIO, writer: ChangesetWriter, origin: str, *, lowest: bool) -> None:
    """Hand every entry of the layer ``stream`` (a tar, not compressed) to ``writer``; reads it to its end.

    IntegrityError, which names ``origin`` and the entry, where it is damaged or not safe to unpack.
    """
    writer.layer(origin, lowest=lowest)
    with reading(origin):
        for archive, member in tar_members(stream, origin):
            _apply(archive, member, writer)


def _apply(archive: tarfile.TarFile, member: tarfile.TarInfo, writer: ChangesetWriter) -> None:
    name = _relative(member.name)
    above, _, last = name.rstrip(b"/").rpartition(b"/")
    if (b"/" + above).find(b"/" + _AUFS) >= 0:
        return
    if (b"/" + above).find(b"/" + WHITEOUT) >= 0:
        writer.unsafe(name, "it stands in a directory that a whiteout names")
    if last.startswith(WHITEOUT):
        writer.whiteout(name)
    elif member.isdir():
        writer.directory(name)
    elif member.issym():
        writer.symlink(name, _encoded(member.linkname))
    elif member.islnk():
        writer.hardlink(name, member.linkname)
    elif member.isreg():
        data = archive.extractfile(member)
        assert data is not None
        writer.file(name, data, size=member.size, executable=bool(member.mode & 0o111))
    elif member.ischr() or member.isblk() or member.isfifo():
        writer.leave_out(name)
    else:
        writer.unsafe(name, f"the entry is of the unknown type {member.type!r}")


def _relative(name: bytes | str) -> bytes:
    """A name of a layer: absolute ones start at the root, as all do."""
    return _encoded(name).lstrip(b"/")


def _encoded(name: bytes | str) -> bytes:
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
