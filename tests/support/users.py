"""Acting as an ordinary user in a test that root runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lockbuild

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


def python_for_everyone(directory: Path) -> tuple[str, dict[str, str]]:
    """A Python that any user may run, and the variables with which it finds lockbuild and what it imports.

    The interpreter that runs the tests may lie below a home that only its owner may enter: then the system's of
    the same version takes its place, with a copy of the packages below ``directory``, which all may enter.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for program in (str(Path(sys.executable).resolve()), f"/usr/bin/python{version}"):
        try:
            tried = subprocess.run(
                [program, "-c", "import ctypes, ssl"],
                user=ORDINARY,
                group=ORDINARY,
                extra_groups=[],
                check=False,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            break
    else:
        raise AssertionError(f"no Python {version} here that everybody may run: apt install python{version}")
    packages = directory / "packages"
    if not packages.exists():
        names = [path for path in sys.path if path.endswith("site-packages")]
        for path in names:
            left_out = shutil.ignore_patterns(
                "__pycache__", "mypy*", "hypothesis*", "ruff*", "__editable__*", "*.pth"
            )
            shutil.copytree(path, packages, ignore=left_out, dirs_exist_ok=True)
        shutil.copytree(Path(lockbuild.__file__).parent, packages / "lockbuild", dirs_exist_ok=True)
        for data in ("toolchains", "containers"):
            shutil.copytree(Path(lockbuild.__file__).parents[1] / data, packages / data)
        subprocess.run(["chmod", "-R", "a+rX", str(packages)], check=True)
    return program, {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
