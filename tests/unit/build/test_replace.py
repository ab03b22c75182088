"""A directory takes another's place in one step, whoever else does the same."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockbuild.build import replace
from lockbuild.build.replace import replace_directory


def made(directory: Path, text: str) -> Path:
    directory.mkdir()
    (directory / "file").write_text(text)
    return directory


@pytest.fixture(params=["renameat2", "two renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "two renames":
        monkeypatch.setattr(replace, "_exchange", replace._exchange_in_two_steps)
    return str(request.param)


def test_the_new_one_stands_there_and_nothing_else(way: str, tmp_path: Path) -> None:
    for text in ("first", "second"):
        replace_directory(made(tmp_path / "fresh", text), tmp_path / "there")
        assert (tmp_path / "there/file").read_text() == text
        assert os.listdir(tmp_path) == ["there"]


def test_what_must_not_be_replaced_is_not(way: str, tmp_path: Path) -> None:
    made(tmp_path / "there", "precious")

    def refuse() -> None:
        raise OSError(errno.EPERM, "no")

    with pytest.raises(PermissionError):
        replace_directory(made(tmp_path / "fresh", "new"), tmp_path / "there", check=refuse)
    assert (tmp_path / "there/file").read_text() == "precious"


def test_many_at_once(way: str, tmp_path: Path) -> None:
    def once(number: int) -> None:
        for turn in range(50):
            replace_directory(made(tmp_path / f"fresh-{number}", f"{turn}"), tmp_path / "there")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(once, range(4)))
    assert os.listdir(tmp_path) == ["there"]
    assert (tmp_path / "there/file").read_text().isdigit()


def test_there_is_never_a_moment_without_it(tmp_path: Path) -> None:
    made(tmp_path / "there", "0")
    with ThreadPoolExecutor(1) as pool:

        def write() -> None:
            for turn in range(300):
                replace_directory(made(tmp_path / "fresh", f"{turn}"), tmp_path / "there")

        writing = pool.submit(write)
        while not writing.done():
            assert (tmp_path / "there").is_dir()
        writing.result()
