"""SHA-256 on another core, while the bytes go where they go. hashlib lets other threads run meanwhile."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING

from lockbuild.model.digest import Digest

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PENDING = 4
"""Pieces that may wait: enough to bridge what takes longer now and then, and little memory."""


class HashBehind:
    """A hash that is always a little behind. To be used in a ``with`` block, by one thread."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hash")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> HashBehind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def update(self, data: Buffer) -> None:
        """Append ``data``, which has to stay as it is until `settle` where it is not ``bytes``."""
        if len(self._pending) >= _PENDING:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(self._hasher.update, data))

    def settle(self) -> None:
        """Wait until all of it is hashed."""
        while self._pending:
            self._pending.popleft().result()

    def digest(self) -> Digest:
        """Of all of it."""
        self.settle()
        return Digest(self._hasher.hexdigest())
