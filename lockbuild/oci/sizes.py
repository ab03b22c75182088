"""How large the layer of a tree is, without making it."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from lockbuild.archive import canonical, ustar
from lockbuild.model.digest import Digest


@lru_cache(maxsize=8)
def entries(digest: Digest, root: Path) -> Sequence[canonical.Entry]:
    """The entries of the tree ``digest``, which is unpacked at ``root``: to be asked for again soon, or not at all."""
    return canonical.scan(root)


@lru_cache(maxsize=256)
def layer_size(digest: Digest, root: Path) -> int:
    """The size in bytes of the canonical tar of the tree ``digest``, which is unpacked at ``root``.

    Reads names and sizes of the files, no contents; once for each tree in a process.
    """
    size = len(ustar.END)
    for name, status in entries(digest, root):
        if stat.S_ISREG(status.st_mode):
            size += status.st_size + ustar.padding(status.st_size)
            if len(name) <= ustar.MAX_FIELD and status.st_size <= ustar.MAX_SIZE:
                size += ustar.BLOCK  # as nearly all have; building the header takes long
                continue
            head = ustar.file_header(name, status.st_size, executable=False)
        elif stat.S_ISDIR(status.st_mode):
            head = ustar.directory_header(name)
        else:
            # A link's size is the length of its target; only whether it fits the field matters.
            head = ustar.symlink_header(name, bytes(status.st_size))
        size += len(head)
    return size
