"""Acting as an ordinary user in a test that root runs."""

from __future__ import annotations

import json
import os
import traceback
import warnings
from collections.abc import Callable
from typing import Any

ORDINARY = 54321
"""A user and group id without a name."""


def as_ordinary_user(function: Callable[[], Any], *, umask: int = 0o077) -> Any:
    """What ``function`` returns (as JSON) in a child process without any privilege, and with another umask.

    A fork, because the interpreter that runs the tests may lie where only root can read it: so all
    that the function needs must be imported already.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the parent has threads; the child starts none
        pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.umask(umask)
            os.setgroups([])
            os.setresgid(ORDINARY, ORDINARY, ORDINARY)
            os.setresuid(ORDINARY, ORDINARY, ORDINARY)
            answer = {"value": function()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(write, "w") as stream:
            json.dump(answer, stream)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        answer = json.load(stream)
    os.waitpid(pid, 0)
    assert "error" not in answer, answer["error"]
    return answer["value"]
