"""What stands where a command shall put a file.

Files get their names by a rename, so that they are there whole or not at all. That would put an end to what is no
regular file: a device, a pipe, a link that leads to what others use.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lockbuild.errors import UsageError


def is_written_into(file: Path) -> bool:
    """Whether a character device or pipe stands at ``file``, or where links there lead: what it is to have is written
    into it. UsageError for what can neither be written into nor be replaced. Where that cannot be found out, writing
    will tell."""
    linked = file.is_symlink()
    try:
        mode = file.stat().st_mode
    except OSError:  # above all, there is nothing
        mode = stat.S_IFREG
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    if stat.S_ISDIR(mode):
        raise UsageError("it is a directory; name a file", on=str(file))
    if linked:
        raise UsageError(
            "it is a symbolic link, which a new file would take the place of",
            on=str(file),
            hint=f"name what it leads to, {os.path.realpath(file)}, or remove the link",
        )
    if not stat.S_ISREG(mode):
        raise UsageError(
            "it is a block device or socket", on=str(file), hint="name a file, a pipe or a character device"
        )
    return False
