"""Looking at the trees that something is built from, while it is built.

A tree has its digest when it gets its name in the store, but people and disks can change it afterwards. Whatever
touches a file of a tree leaves a time that is not the epoch: that is looked for on every build, which takes a tenth
of a second for twenty thousand files. Where a claim depends on the bytes (to reproduce, to derive a tool) they are
all hashed again. Both happen beside the build, whose sandbox leaves this process idle, and end before its results
are used.

An engine's images are not looked at: it checked each layer's digest when it took them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from lockbuild.build.plan import Plan
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.workflow.workspace import Workspace

_NICENESS = 10
_HEAD_START = 0.1
"""Seconds that the body gets to start its first process: two threads that run Python hold each other up."""


@contextmanager
def trusted(
    workspace: Workspace, environment: Environment, plan: Plan, *, thorough: bool
) -> Iterator[Callable[[], None]]:
    """Look at every tree that ``plan`` uses while the body runs; IntegrityError, instead of whatever the body came
    to, where one is damaged. The value raises it as soon as that is known; call it now and then."""
    stopped = threading.Event()
    ending = threading.Event()
    trees = list(_used(workspace, environment, plan))
    with ThreadPoolExecutor(1, thread_name_prefix="verify") as pool:
        looking = pool.submit(_look, workspace, trees, thorough, stopped, ending)
        try:
            yield lambda: _raise_damage(looking)
        except Exception:
            ending.set()
            looking.result()  # damage explains a failure better than the failure does
            raise
        except BaseException:
            stopped.set()
            ending.set()
            raise
        ending.set()
        looking.result()


def _used(workspace: Workspace, environment: Environment, plan: Plan) -> Iterator[tuple[str, Digest]]:
    if workspace.backend.name != "docker":
        for tree in environment.trees:
            yield tree.name, tree.digest
    yield from plan.inputs


def _look(
    workspace: Workspace,
    trees: Iterable[tuple[str, Digest]],
    thorough: bool,
    stopped: threading.Event,
    ending: threading.Event,
) -> None:
    with suppress(OSError):  # what this takes of the processors is to be what the build leaves
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    ending.wait(_HEAD_START)
    for name, digest in trees:
        reason = workspace.store.tree_damage(digest, thorough=thorough, stopped=stopped.is_set)
        if reason is not None:
            raise IntegrityError(
                f"{name}: the tree in the store is damaged: {reason}",
                on=str(workspace.store.tree_path(digest)),
                hint="run `lockbuild store verify --repair`, which removes what is damaged, then `lockbuild sync`, "
                "which makes it again",
            )


def _raise_damage(looking: Future[None]) -> None:
    if looking.done():
        looking.result()
