"""What a killed process left in a scratch directory is gone before the next one has its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lockbuild.sandbox.scratch import scratch_directory


def test_a_sandbox_that_outlived_its_starter_is_ended(tmp_path: Path) -> None:
    left = tmp_path / "sandbox-left"
    (left / "root").mkdir(parents=True)
    reader, writer = os.pipe()
    command = [
        "bwrap",
        "--bind",
        "/",
        "/",
        "--bind",
        str(left / "root"),
        "/mnt",
        "--block-fd",
        str(reader),
        "true",
    ]
    waiting = subprocess.Popen(command, pass_fds=(reader,), stdin=subprocess.DEVNULL)
    try:
        with scratch_directory(tmp_path) as fresh:
            assert [path.name for path in tmp_path.iterdir()] == [fresh.name]
            assert waiting.wait(10) != 0
    finally:
        waiting.kill()
        waiting.wait()
        os.close(reader)
        os.close(writer)
    assert list(tmp_path.iterdir()) == []
