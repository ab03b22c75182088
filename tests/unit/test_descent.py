"""Trees of any depth."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.descent import below, descend, remove
from tests.support.users import as_ordinary_user

DEPTH = 3000
"""More than Python recurses, and than paths are long with such names."""


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "deep"
    root.mkdir()
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(root)
        for number in range(DEPTH):
            for name in ("dd", "side"):
                os.mkdir(name)
            (Path("side") / "file").write_text(f"{number}")
            os.chdir("dd")
        Path("last").write_text("here")
    finally:
        os.fchdir(before)
        os.close(before)
    yield root
    remove(root)


def test_it_is_visited_and_removed_with_few_descriptors(deep: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        names: dict[int, list[str]] = {}

        def enter(directory: int, path: object) -> list[str]:
            assert isinstance(path, list)
            names.setdefault(len(path), []).extend(path[-1:])
            return [entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]

        opened = os.listdir("/proc/self/fd")
        descend(deep, enter)
        assert len(names) == DEPTH + 1
        assert all(sorted(found) == ["dd", "side"] for depth, found in names.items() if depth)
        remove(deep)
        assert os.listdir("/proc/self/fd") == opened
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept/inner").mkdir(parents=True)
    (tmp_path / "kept/file").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "direct").symlink_to(tmp_path / "kept")
    os.mkfifo(tree / "fifo")
    assert sorted(name for name, _ in below(tmp_path)) == [
        *("direct", "kept", "kept/file", "kept/inner", "tree", "tree/fifo", "tree/link")
    ]
    for path in (tree, tmp_path / "direct", tmp_path / "absent", tmp_path / "absent/x"):
        remove(path)
    assert sorted(name for name, _ in below(tmp_path)) == ["kept", "kept/file", "kept/inner"]


def test_an_ordinary_user_removes_what_is_closed_to_him() -> None:
    top = Path(tempfile.mkdtemp())
    top.chmod(0o777)

    def work() -> list[str]:
        for mode, name in enumerate(("a/b/c", "d/e", "f")):
            (top / "tree" / name).mkdir(parents=True)
            (top / "tree" / name / "file").touch()
            for parent in (Path(name), *Path(name).parents[:-1]):
                (top / "tree" / parent).chmod(0o100 * mode * 2)
        (top / "tree").chmod(0)
        with pytest.raises(PermissionError):
            below(top / "tree")
        remove(top / "tree")
        return os.listdir(top)

    try:
        assert (as_ordinary_user(work) if os.geteuid() == 0 else work()) == []
    finally:
        shutil.rmtree(top)
