"""The three standard streams: open whatever we were started with, and never the reason why work is left undone.

A stream that is closed is the null device. What stderr does not take is dropped: there is nobody to tell. What stdout
does not take is dropped too, but known (`lost`), so that the work goes on, and its status can say so at the end.
"""

from __future__ import annotations

import errno
import io
import locale
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputLost(Exception):  # noqa: N818
    """What is passed on to stdout goes nowhere. No OSError: whoever runs programs would take it for one of theirs."""


class _Descriptor(io.RawIOBase):
    """Writes to a descriptor until that fails, then nowhere; ``lost`` is what it failed with."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self.lost: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: ReadableBuffer, /) -> int:
        while self.lost is None:
            try:
                return os.write(self._number, data)
            except BlockingIOError:  # a pipe that another process has set so
                _wait(self._number)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def _wait(number: int) -> None:
    import select

    poll = select.poll()
    poll.register(number, select.POLLOUT)
    poll.poll()


_stdout = _Descriptor(1)


def open_streams() -> None:
    """Open what is closed, and let ``sys`` have streams that behave as this module says."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The first descriptor that is free, so this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_stdout, sys.stdout, line_buffering=_stdout.isatty())
    sys.stderr = _text(_Descriptor(2), sys.stderr, line_buffering=True)


def _text(raw: _Descriptor, before: TextIO | None, *, line_buffering: bool) -> TextIO:
    encoding = before.encoding if before is not None else locale.getencoding()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=line_buffering
    )


def write_result(data: bytes) -> None:
    """Bytes of a result, for stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def pass_on(data: bytes) -> None:
    """What a program in the sandbox wrote, to stdout at once. OutputLost where that does not take it any more."""
    write_result(data)
    if lost() is not None:
        raise OutputLost


def reader_is_gone() -> bool:
    """Whether whoever read our result has closed it: usual, as with ``head``."""
    error = lost()
    return error is not None and error.errno == errno.EPIPE


def lost() -> OSError | None:
    """Why a part of the result is lost; None where all of it is written."""
    sys.stdout.flush()
    return _stdout.lost
