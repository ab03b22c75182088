"""A directory of the project that lockbuild writes in: no link leads out of it, and files take their places whole."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockbuild.errors import UsageError
from lockbuild.workflow.own_directory import OwnDirectory


def own(tmp_path: Path) -> OwnDirectory:
    (tmp_path / "real").mkdir()
    (tmp_path / "project").symlink_to("real")
    return OwnDirectory(tmp_path / "project", ("a", "b"))


def test_it_is_made_where_it_is_missing(tmp_path: Path) -> None:
    directory = own(tmp_path)
    assert not directory.exists()
    directory.check()
    assert directory.make() == directory.make() == tmp_path / "project/a/b"
    assert directory.exists()
    with directory.create("log") as file:
        file.write(b"one")
    directory.replace("stamp", b"two")
    directory.add("ignore", b"three")
    directory.add("ignore", b"four")
    assert {name: directory.read(name, most=9) for name in os.listdir(directory.path)} == {
        "log": b"one",
        "stamp": b"two",
        "ignore": b"three",
    }


@pytest.mark.parametrize("link", ["a", "a/b"])
@pytest.mark.parametrize("to", ["victim", "nowhere", "file"])
def test_no_link_is_followed_to_a_directory(tmp_path: Path, link: str, to: str) -> None:
    directory = own(tmp_path)
    (tmp_path / "victim/b").mkdir(parents=True)
    (tmp_path / "file").touch()
    at = tmp_path / "real" / link
    at.parent.mkdir(exist_ok=True)
    at.symlink_to(tmp_path / to)
    for act in (
        directory.make,
        directory.check,
        lambda: directory.read("x", most=1),
        lambda: directory.replace("x", b""),
    ):
        with pytest.raises(UsageError, match="it is a symbolic link") as error:
            act()
        assert error.value.on == str(tmp_path / "project" / link)
    assert [path.name for path in (tmp_path / "victim").rglob("*")] == ["b"]


@pytest.mark.parametrize("to", ["victim", "nowhere"])
def test_no_link_is_followed_to_a_file(tmp_path: Path, to: str) -> None:
    directory = own(tmp_path)
    directory.make()
    (tmp_path / "victim").write_bytes(b"precious")
    for name in ("log", "stamp", "ignore"):
        (directory.path / name).symlink_to(tmp_path / to)
        with pytest.raises(OSError, match="symbolic links"):
            directory.read(name, most=99)
    directory.create("log").close()
    directory.replace("stamp", b"new")
    directory.add("ignore", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()
    assert (directory.path / "ignore").is_symlink()
    assert directory.read("stamp", most=99) == b"new"


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    directory = own(tmp_path)
    os.mkfifo(directory.make() / "fifo")
    (directory.path / "large").write_bytes(b"12345")
    for name in ("fifo", "large", "."):
        with pytest.raises(OSError, match="Invalid argument"):
            directory.read(name, most=4)


def test_a_directory_in_the_place_of_a_file_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    directory = own(tmp_path)
    (directory.make() / "log").mkdir()
    for act in (lambda: directory.create("log"), lambda: directory.replace("log", b"")):
        with pytest.raises(UsageError, match="it is a directory, and lockbuild writes a file there"):
            act()
    assert os.listdir(directory.path) == ["log"]


def test_each_of_several_at_once_writes_to_its_own(tmp_path: Path) -> None:
    directory = own(tmp_path)

    def log(number: int) -> bytes:
        directory.make()
        with directory.create("log") as file:
            file.write(b"%d" % number)
        return directory.read("log", most=9)

    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(log, range(200)))
    assert os.listdir(directory.path) == ["log"]
    assert directory.read("log", most=9) in {b"%d" % number for number in range(200)}
    assert len(read) == 200
