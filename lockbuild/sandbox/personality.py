"""Address randomisation off for the programs that this thread starts: personality(2), ADDR_NO_RANDOMIZE.

Compilers have had output that depends on addresses (maps keyed by pointers). The flag belongs to the
calling thread and is inherited over fork and exec, so it is set around the start of a process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_ADDR_NO_RANDOMIZE = 0x0040000
_QUERY = 0xFFFFFFFF


@contextmanager
def fixed_addresses() -> Iterator[bool]:
    """Programs started within get the same addresses each time; False where the kernel refuses that."""
    libc = ctypes.CDLL(None)
    libc.personality.argtypes = [ctypes.c_ulong]
    before = libc.personality(_QUERY)
    changed = before != -1 and libc.personality(before | _ADDR_NO_RANDOMIZE) != -1
    try:
        yield changed
    finally:
        if changed:
            libc.personality(before)
