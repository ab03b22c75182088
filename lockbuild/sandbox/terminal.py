"""A terminal of its own for a command that has the caller's: what is typed and written is passed on.

On the caller's terminal an interrupt reaches every process of the foreground, so lockbuild and bwrap as well, and their
end is that of the command, even if that handles the interrupt. On a pseudoterminal (pty(7)) which only the command's
session has, Ctrl-C, Ctrl-Z and the like are the command's, as in containers; and nothing can be put into the caller's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16

TAKE_TERMINAL = ["/bin/sh", "-c", 'trap : INT QUIT; { true </dev/console; } 2>/dev/null; "$@"; exit $?', "sh"]
"""Starts a command from the process that leads the session: that one's opening a terminal makes it the session's (bwrap
has it at /dev/console). With bwrap that is the first process, which signals do not end by themselves."""


def have_terminal() -> bool:
    """Whether both standard input and output are terminals, and it is our turn to use them."""
    if not (os.isatty(0) and os.isatty(1)):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # a terminal that does not send us signals
        return True


class Terminal:
    """A pseudoterminal; ``follower`` is the side for a command."""

    def __init__(self, leader: int, follower: int) -> None:
        self._leader = leader
        self.follower = follower

    def pass_on(self) -> None:
        """Pass on what is typed and what is written until nobody has the other side any more."""
        os.close(self.follower)
        self.follower = -1
        os.set_blocking(self._leader, False)
        typed = b""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while True:
            poll.register(self._leader, select.POLLIN | (select.POLLOUT if typed else 0))
            for descriptor, event in poll.poll():
                if descriptor == 0:
                    # No more than what is taken: the command may not read.
                    typed = _read(0) or b""
                    poll.unregister(0)
                    if not typed:
                        continue
                if typed:
                    with suppress(BlockingIOError):
                        typed = typed[os.write(self._leader, typed) :]
                    if not typed:
                        poll.register(0, select.POLLIN)
                if descriptor == self._leader and event & ~select.POLLOUT:
                    written = _read(self._leader)
                    if written is None:
                        return
                    while written:
                        written = written[os.write(1, written) :]

    def resize(self) -> None:
        """Give it the size of the caller's."""
        with suppress(OSError):
            fcntl.ioctl(self._leader, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))


@contextmanager
def own_terminal() -> Iterator[Terminal]:
    """One with the settings and the size of the caller's, which meanwhile passes every key on as it is."""
    before = termios.tcgetattr(0)
    leader, follower = os.openpty()
    terminal = Terminal(leader, follower)
    resized = signal.getsignal(signal.SIGWINCH)
    try:
        termios.tcsetattr(follower, termios.TCSANOW, before)
        terminal.resize()
        signal.signal(signal.SIGWINCH, lambda *_: terminal.resize())
        tty.setraw(0, termios.TCSADRAIN)
        yield terminal
    finally:
        signal.signal(signal.SIGWINCH, resized)
        with suppress(termios.error):  # hung up
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        for descriptor in (leader, terminal.follower):
            if descriptor >= 0:
                os.close(descriptor)


def _read(descriptor: int) -> bytes | None:
    """What there is; None at the end."""
    try:
        return os.read(descriptor, _CHUNK) or None
    except BlockingIOError:
        return b""
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None
