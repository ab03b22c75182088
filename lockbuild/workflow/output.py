"""Writing a large file that is there whole or not at all; in parts, if it is asked for."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.archive.hashing import HashBehind
from lockbuild.errors import FetchError, UsageError, storage_error
from lockbuild.model.digest import Digest
from lockbuild.store.durable import WriteBehind, write_all
from lockbuild.workflow.place import is_written_into

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lockbuild.oci.bundle.split import PartHead

_INSTEAD = "or write it to another place (-o FILE)"


class Output:
    """A file, or its parts, being written next to where it goes: `write`, then `commit`. ``digest`` is known then.

    A device or pipe is written into.
    """

    def __init__(self, target: Path, exits: ExitStack, heads: list[PartHead] | None) -> None:
        self._target = target
        self._heads = heads
        self._hasher = exits.enter_context(HashBehind())
        self._slice = hashlib.sha256()
        self._digests: list[Digest] = []
        self._left = heads[0].length if heads else 0
        names = [f"{target.name}.{head.number:03}" for head in heads] if heads else [target.name]
        self.files = [target.parent / name for name in names]
        self._exits = exits
        self._temporary: list[tuple[Path, int]] = []
        self._into = _into(self.files)
        self._begin()

    @property
    def digest(self) -> Digest:
        """Of all that was written."""
        return self._hasher.digest()

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        view = memoryview(data).cast("B")
        self._hasher.update(data)
        while self._heads and len(view) > self._left:
            piece, view = view[: self._left], view[self._left :]
            self._put(piece)
            self._end()
            self._left = self._heads[len(self._temporary)].length
            self._begin()
        self._put(view)
        if not isinstance(data, bytes):
            self._hasher.settle()

    def commit(self) -> None:
        """Bring it to the disk and give it its name."""
        if self._into:
            return
        if self._heads:
            self._end()
            for head, digest, (_, descriptor) in zip(
                self._heads, self._digests, self._temporary, strict=True
            ):
                whole = head.model_copy(update={"bundle": self.digest, "digest": digest})
                os.pwrite(descriptor, whole.start(), 0)
        for path, descriptor in self._temporary:
            os.fsync(descriptor)
            path.chmod(0o666 & ~_umask())
        for (path, _), file in zip(self._temporary, self.files, strict=True):
            path.replace(file)
        directory = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _put(self, view: memoryview) -> None:
        if self._heads:
            self._slice.update(view)
            self._left -= len(view)
        write_all(self._temporary[-1][1], view)
        self._behind.wrote(len(view))

    def _begin(self) -> None:
        file = self.files[len(self._temporary)]
        if self._into:
            descriptor = os.open(file, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            self._exits.callback(os.close, descriptor)
            self._temporary.append((file, descriptor))
            self._behind = WriteBehind(descriptor)
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        self._exits.callback(os.close, descriptor)
        self._exits.callback(Path(name).unlink, missing_ok=True)
        self._temporary.append((Path(name), descriptor))
        if self._heads:
            write_all(descriptor, memoryview(self._heads[len(self._temporary) - 1].start()))
        self._behind = WriteBehind(descriptor)

    def _end(self) -> None:
        assert self._heads
        self._digests.append(Digest(self._slice.hexdigest()))
        self._slice = hashlib.sha256()
        write_all(self._temporary[-1][1], memoryview(self._heads[len(self._temporary) - 1].end()))


@contextmanager
def output(target: Path, size: int, split: int | None, *, what: str = "the bundle") -> Iterator[Output]:
    """A file of ``size`` bytes to write to ``target``, or parts of at most ``split`` bytes beside that name.

    Messages call it ``what``. What is not committed is removed at the end. FetchError where the disk does not have
    the room, or refuses.
    """
    heads = None
    if split is not None:
        from lockbuild.oci.bundle.split import planned

        heads = planned(size, split)
    if target.is_dir():
        raise UsageError("it is a directory; name a file", on=str(target))
    try:
        free = os.statvfs(target.parent)
        room = free.f_bavail * free.f_frsize
        if room < size and not (heads is None and is_written_into(target)):
            raise FetchError(
                f"{what} has {size:,} bytes, and there is room for {room:,}",
                on=str(target.parent),
                hint=f"free some space, {_INSTEAD}",
            )
        with ExitStack() as exits:
            yield Output(target, exits, heads)
    except OSError as error:
        failed = f"{what} cannot be written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(
                f"{failed}: {error.strerror}; nothing of it is left",
                on=str(target),
                hint=f"free some space, {_INSTEAD}",
            ) from error
        raise storage_error(error, failed, on=str(target), instead=_INSTEAD) from error


def _into(files: list[Path]) -> bool:
    """Whether the one file is to be written into; none of several can be, since their starts are written last."""
    found = [file for file in files if is_written_into(file)]
    if found and len(files) > 1:
        raise UsageError("a part cannot be written into a device or pipe", on=str(found[0]), hint="remove it")
    return bool(found)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
