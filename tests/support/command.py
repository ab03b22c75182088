"""Running the command line as a person does: another process, its exit status, its text."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Result:
    """What a command printed and how it ended."""

    def __init__(self, argv: list[str], done: subprocess.CompletedProcess[str]) -> None:
        self.argv, self.status, self.out, self.err = argv, done.returncode, done.stdout, done.stderr

    def __repr__(self) -> str:
        return f"$ {shlex.join(self.argv)}\n{self.out}{self.err}[status {self.status}]"

    @property
    def value(self) -> Any:
        """What it printed with --json."""
        return json.loads(self.out)


def lockbuild(
    *arguments: str | Path,
    status: int | None = 0,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    preexec: Callable[[], None] | None = None,
    timeout: float = 900,
) -> Result:
    """Run ``lockbuild``; AssertionError with all that it printed where it ends with another ``status``."""
    argv = [sys.executable, "-m", "lockbuild", *map(str, arguments)]
    done = subprocess.run(
        argv,
        env={**os.environ, **python_path(), **(environ or {})},
        cwd=cwd,
        preexec_fn=preexec,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    result = Result(["lockbuild", *map(str, arguments)], done)
    assert status is None or result.status == status, result
    return result


def python_path() -> dict[str, str]:
    """The variable by which Python finds the lockbuild that is tested."""
    return {"PYTHONPATH": str(_ROOT)}


_ROOT = Path(__file__).parents[2]
EXAMPLES = _ROOT / "examples"
