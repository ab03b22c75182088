"""A stamp speaks of files as they were read, and of the lockbuild that read them, or it says nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lockbuild
from lockbuild.workflow.stamp import before_reading, file_digests, read_stamp, write_stamp
from lockbuild.workflow.workspace import STATE_NAME, ProjectPaths


@pytest.fixture
def paths(tmp_path: Path) -> ProjectPaths:
    made = ProjectPaths(tmp_path)
    for file in (made.manifest, made.lock):
        file.write_text("x")
    time.sleep(0.05)
    return made


def test_what_was_read_is_stamped(paths: ProjectPaths) -> None:
    write_stamp(paths, file_digests([paths.manifest, paths.lock], before_reading()), checked=True)
    assert read_stamp(paths)["checked"] is True
    paths.manifest.write_text("y")
    assert read_stamp(paths) == {}
    paths.manifest.write_text("x")
    assert read_stamp(paths)["checked"] is True


@pytest.mark.parametrize("how", ["written", "replaced"])
def test_a_file_that_changes_while_it_is_read_is_not_stamped(paths: ProjectPaths, how: str) -> None:
    """What was checked is what stood there before; what would be stamped is what stands there now."""
    since = before_reading()
    if how == "written":
        paths.manifest.write_text("y")
    else:
        other = paths.manifest.with_suffix(".new")
        other.write_text("y")
        os.utime(other, (0, 0))
        other.replace(paths.manifest)
    write_stamp(paths, file_digests([paths.manifest, paths.lock], since), checked=True)
    assert read_stamp(paths) == {}


@pytest.mark.parametrize("place", ["cli/verbs/lock.py", "workflow/sync.py", "errors.py"])
def test_another_lockbuild_of_the_same_version_and_times(
    paths: ProjectPaths, tmp_path: Path, place: str
) -> None:
    """As in images, where all files have one time of modification."""
    package = tmp_path / "installed" / "lockbuild"
    shutil.copytree(Path(lockbuild.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.rglob("*"):
        os.utime(file, (0, 0))

    def by() -> str:
        code = "from lockbuild.workflow import stamp; print(stamp._installation())"
        done = subprocess.run(
            [sys.executable, "-B", "-c", code], cwd=package.parent, capture_output=True, check=True, text=True
        )
        return done.stdout

    before = by()
    assert by() == before
    text = (package / place).read_text()
    (package / place).write_text(text[:-1] + "#")
    os.utime(package / place, (0, 0))
    assert by() != before


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"by": 1, "files": []}', "null"])
def test_what_is_no_stamp_says_nothing(paths: ProjectPaths, text: str) -> None:
    (paths.directory / STATE_NAME).mkdir()
    (paths.directory / STATE_NAME / "stamp.json").write_text(text)
    assert read_stamp(paths) == {}


def test_a_stamp_with_a_list_for_files_says_nothing(paths: ProjectPaths) -> None:
    write_stamp(paths, file_digests([paths.manifest, paths.lock], before_reading()), checked=True)
    file = paths.directory / STATE_NAME / "stamp.json"
    stamp = json.loads(file.read_text())
    file.write_text(json.dumps({**stamp, "files": list(stamp["files"])}))
    assert read_stamp(paths) == {}
