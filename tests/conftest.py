"""Fixtures that tests of several kinds share."""

import signal

from tests.support.engine import engine
from tests.support.examples import examples
from tests.support.sandboxes import bubblewrap, busybox_spec, docker, sandbox
from tests.support.worlds import forked, original, shared

# Where the tests run in the background they were told to ignore these, and so would be whatever they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

__all__ = [
    "bubblewrap",
    "busybox_spec",
    "docker",
    "engine",
    "examples",
    "forked",
    "original",
    "sandbox",
    "shared",
]
