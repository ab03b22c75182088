"""The examples with the real Emscripten, locked against what the mirror serves now, for the tests that build them.

They are copies, since the locks that are committed name packages that may have left the mirror. The first test pays
for the toolchain (download, unpacking, Emscripten's system libraries), in a store that all of them use;
``LOCKBUILD_TEST_STORE`` names one that is kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import EXAMPLES, Result, lockbuild

NAMES = ("hello", "zlib", "lua")


@dataclass
class Examples:
    """Copies of the examples in ``projects``, locked, materialised and recorded with ``store`` by bubblewrap."""

    projects: Path
    store: Path

    def run(self, name: str, *arguments: str | Path, **options: object) -> Result:
        project = options.pop("project", self.projects / name)
        store = options.pop("store", self.store)
        backend = options.pop("backend", "bubblewrap")
        common = ("--project", str(project), "--store", str(store), "--backend", str(backend))
        return lockbuild(*common, *arguments, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def examples() -> Iterator[Examples]:
    # Not below pytest's directories, which only their owner may enter: an ordinary user builds here, too.
    directory = Path(tempfile.mkdtemp(prefix="lb-examples-"))
    directory.chmod(0o755)
    store = Path(os.environ.get("LOCKBUILD_TEST_STORE", directory / "store"))
    made = Examples(directory / "projects", store)
    for name in NAMES:
        copy(EXAMPLES / name, made.projects / name, lock=False)
        made.run(name, "lock", "--allow-expired", "--materialise")
        made.run(name, "reproduce", "--record")
    yield made
    shutil.rmtree(directory)


def copy(source: Path, destination: Path, *, lock: bool = True) -> Path:
    left_out = {"dist", ".lockbuild"} | (set() if lock else {"lockbuild.lock"})
    shutil.copytree(source, destination, ignore=lambda _, names: left_out.intersection(names))
    return destination
