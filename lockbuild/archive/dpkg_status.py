"""Which Debian packages a root file system says it has: dpkg's own list.

``/var/lib/dpkg/status`` (dpkg(1), deb822(5)), or where that is missing one file for each package in ``status.d``, as
images without dpkg have it.
"""

from __future__ import annotations

from collections.abc import Mapping

DIRECTORY = b"var/lib/dpkg"
STATUS = DIRECTORY + b"/status"
_PARTS = DIRECTORY + b"/status.d/"
LIMIT = 64 << 20
"""Bytes. The list of a system with three thousand packages has three million."""


def is_list(path: bytes) -> bool:
    """Whether the file at ``path`` (relative to the root) is a list, or a part of one."""
    if path.startswith(_PARTS):
        name = path[len(_PARTS) :]
        return bool(name) and b"/" not in name and not name.endswith(b".md5sums")
    return path == STATUS


def package_list(files: Mapping[bytes, bytes]) -> bytes | None:
    """The list in ``files`` (by path): stanzas with ``Status``, an empty line between two; None where there is none."""
    if STATUS in files:
        return files[STATUS]
    parts = [files[path].strip(b"\n") for path in sorted(files) if path.startswith(_PARTS)]
    if not parts:
        return None
    return b"".join(part + b"\nStatus: install ok installed\n\n" for part in parts if part)
