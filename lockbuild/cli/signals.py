"""What SIGINT and SIGTERM do to a command: the first ends it in good order, an impatient one at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_PATIENCE = 2.0  # seconds that putting away may take before another signal ends it
_SOON = 0.01  # seconds until a lost interruption is raised anew


class Interrupted(KeyboardInterrupt):
    """Raised by the first signal, wherever the main thread is.

    A class of our own as Python ends itself by SIGINT, after we have answered, where a KeyboardInterrupt itself has
    ever left a string that was executed, as those are of which dataclasses are made.
    """


class Signals:
    """SIGTERM ends as Ctrl-C does: sandboxes are closed and scratch directories removed on the way out.

    An exception is raised once, so that none can interrupt the handling of another. What comes within the next
    `_PATIENCE` changes nothing: terminals and supervisors often send it twice. Who sends it later still waits for
    something, and ends the process as SIGKILL would: the kernel then ends the sandboxes, and the next command sweeps.

    Where Python cannot let the exception pass (in a callback of a weak reference, in a ``__del__``) it would drop it:
    then it is raised anew a moment later, by a timer.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._lost = False

    @property
    def came(self) -> bool:
        """Whether one came."""
        return self._first is not None

    def listen(self) -> None:
        """From now on. Raises Interrupted."""
        signal.signal(signal.SIGTERM, self._interrupt)
        # Who starts us in the background may have it ignored, and means that.
        if callable(signal.getsignal(signal.SIGINT)):
            signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(signal.SIGALRM, self._interrupt_anew)
        sys.unraisablehook = self._dropped

    def leave(self) -> None:
        """The command has its result: until the process has ended, a first signal does what the system does."""
        self._lost = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = sys.__unraisablehook__
        if self.came:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, signal.SIG_DFL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            raise Interrupted
        if now - self._first > _PATIENCE:
            os.write(2, b"error: interrupted again, so nothing was put away; the next command does that\n")
            os._exit(ExitStatus.INTERRUPTED)

    def _dropped(self, what: UnraisableHookArgs) -> None:
        if what.exc_type is not Interrupted:
            sys.__unraisablehook__(what)
            return
        # Raised here it would be dropped again.
        self._lost = True
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    def _interrupt_anew(self, number: int, frame: FrameType | None) -> None:
        if self._lost:
            self._lost = False
            raise Interrupted
