"""Fixtures that tests of several kinds share."""

from tests.support.engine import engine
from tests.support.examples import examples
from tests.support.sandboxes import bubblewrap, busybox_spec, docker, sandbox
from tests.support.worlds import forked, original, shared

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
