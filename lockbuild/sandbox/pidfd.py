"""Handles on processes: pidfd_open(2)."""

from __future__ import annotations

import select


def wait_for_end(handle: int) -> None:
    """Wait until the process has ended. poll(2): a descriptor can be too high for select(2)."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.poll()
