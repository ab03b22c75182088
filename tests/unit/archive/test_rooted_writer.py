"""Merging many packages into one root file system, where directories may be links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import IntegrityError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    path = tmp_path / "root"
    path.mkdir()
    return path


def writer(root: Path) -> TreeWriter:
    return TreeWriter(root, origin="libc6.deb", rooted=True)


def test_merged_usr(root: Path) -> None:
    with writer(root) as tree:
        tree.symlink("lib", "usr/lib")
        tree.directory("./lib/")
        tree.file("./lib/x86_64-linux-gnu/libc.so.6", b"libc", executable=True)
        tree.directory("lib/x86_64-linux-gnu")
        tree.hardlink("usr/lib/copy", "./lib/x86_64-linux-gnu/libc.so.6")
    assert (root / "lib").readlink() == Path("usr/lib")
    assert (root / "usr/lib/x86_64-linux-gnu/libc.so.6").read_bytes() == b"libc"
    assert (root / "usr/lib/copy").samefile(root / "lib/x86_64-linux-gnu/libc.so.6")
    assert {path.lstat().st_mtime_ns for path in (root, *root.rglob("*"))} == {0}


@pytest.mark.parametrize(
    "target", ["/run", "../run", "../../../../run", "/../../run", "//run/", "./../run/."]
)
def test_targets_are_resolved_inside_the_root_as_after_chroot(root: Path, target: str) -> None:
    with writer(root) as tree:
        tree.symlink("var/run", target)
        tree.file("var/run/lock/x", b"x", executable=False)
    assert (root / "run/lock/x").read_bytes() == b"x"
    assert os.readlink(root / "var/run") == target
    assert not (root.parent / "run").exists()


def test_chains_of_links(root: Path) -> None:
    with writer(root) as tree:
        tree.symlink("a", "/b/c")
        tree.symlink("b", "d")
        tree.symlink("d/c", "../e")
        tree.file("a/f", b"x", executable=False)
    assert (root / "e/f").read_bytes() == b"x"


def test_a_link_to_a_host_path_is_not_followed_on_the_host(root: Path) -> None:
    outside = root.parent / "outside"
    with writer(root) as tree:
        tree.symlink("etc/target", str(outside))
        tree.file("etc/target/x", b"x", executable=False)
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "x").read_bytes() == b"x"


def test_links_in_a_circle(root: Path) -> None:
    with writer(root) as tree:
        tree.symlink("a", "b")
        tree.symlink("b", "a")
        with pytest.raises(IntegrityError, match="in a circle") as caught:
            tree.file("a/x", b"", executable=False)
    assert caught.value.on == "libc6.deb: a/x"


def test_a_later_package_replaces_a_file_or_a_link_and_not_what_it_leads_to(root: Path) -> None:
    with writer(root) as tree:
        tree.file("bin/awk.real", b"real", executable=True)
        tree.symlink("bin/awk", "awk.real")
        tree.file("bin/awk", b"new", executable=False)
        tree.file("bin/x", b"1", executable=False)
        tree.symlink("bin/x", "awk")
    assert (root / "bin/awk.real").read_bytes() == b"real"
    assert not (root / "bin/awk").is_symlink()
    assert (root / "bin/awk").read_bytes() == b"new"
    assert (root / "bin/x").readlink() == Path("awk")


def test_a_replaced_link_is_not_remembered(root: Path) -> None:
    with writer(root) as tree:
        tree.symlink("l", "one")
        tree.file("l/f", b"1", executable=False)
        tree.symlink("l", "two")
        tree.file("l/f", b"2", executable=False)
    assert (root / "one/f").read_bytes() == b"1"
    assert (root / "two/f").read_bytes() == b"2"


def test_kinds_are_not_mixed(root: Path) -> None:
    with writer(root) as tree:
        tree.directory("d")
        with pytest.raises(IntegrityError, match="a directory of that name"):
            tree.file("d", b"", executable=False)
        with pytest.raises(IntegrityError, match="a directory of that name"):
            tree.symlink("d", "x")
        tree.file("f", b"", executable=False)
        with pytest.raises(IntegrityError, match="where a file stands"):
            tree.directory("f")
        tree.symlink("to-f", "f")
        with pytest.raises(IntegrityError, match="where a file stands"):
            tree.file("to-f/x", b"", executable=False)


@pytest.mark.parametrize("name", ["../x", "a/../x", "/x", "..", "a\0b"])
def test_names_are_as_strict_as_ever(root: Path, name: str) -> None:
    with pytest.raises(IntegrityError):
        writer(root).file(name, b"", executable=False)


def test_two_writers_make_the_same_directories(root: Path) -> None:
    with writer(root) as one, writer(root) as other:
        one.directory("usr/share/doc")
        other.file("usr/share/doc/a", b"a", executable=False)
        one.file("usr/share/doc/b", b"b", executable=True)
    assert sorted(path.name for path in (root / "usr/share/doc").iterdir()) == ["a", "b"]
    assert stat.S_IMODE((root / "usr/share/doc/b").stat().st_mode) == 0o755
