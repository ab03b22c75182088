"""A source directory as a tree: git's ignore rules, and nothing of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.build.ignore import is_source, source_below, walk_source
from lockbuild.build.snapshot import snapshot
from lockbuild.errors import UsageError
from lockbuild.store import Store


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def sources(root: Path, excluded: frozenset[Path] = frozenset()) -> list[str]:
    return [path for path, _ in walk_source(root, excluded)]


def git_files(root: Path) -> list[str]:
    """What git itself takes for source."""
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    listed = subprocess.run(
        [
            "git",
            "-c",
            "core.excludesFile=/dev/null",
            "ls-files",
            "-z",
            "--others",
            "--exclude-per-directory=.gitignore",
        ],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return sorted(os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)


FILES = [
    "a.o",
    "a.c",
    "build/x",
    "build/keep.txt",
    "sub/build/y",
    "sub/a.o",
    "sub/deep/z.log",
    "sub/deep/important.log",
    "dir/f",
]
PATTERNS = [
    "*.o",
    "!sub/a.o",
    "/build",
    "build/",
    "*.log",
    "!important.log",
    "sub/deep",
    "/dir/*",
    "!/build/keep.txt",
    "**/deep",
    "# c",
    "a.?",
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PATTERNS), max_size=4), st.lists(st.sampled_from(PATTERNS), max_size=3))
def test_the_rules_are_those_of_git(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], sub: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    write(root, *FILES)
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    (root / "sub" / ".gitignore").write_text("\n".join(sub) + "\n")
    assert sorted(sources(root)) == git_files(root)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PATTERNS), max_size=4), st.lists(st.sampled_from(PATTERNS), max_size=3))
def test_what_is_source_in_a_directory_is_so_in_the_whole(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], sub: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    write(root, *FILES)
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    (root / "sub" / ".gitignore").write_text("\n".join(sub) + "\n")
    whole = sources(root)
    for name in ("build", "sub", "sub/build", "sub/deep", "dir"):
        below = [f"{name}/{path}" for path in source_below(root, root / name, frozenset())]
        assert below == [path for path in whole if path.startswith(f"{name}/")]
        assert is_source(root, root / name, frozenset()) or not below


def test_rules_above_count_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.c\n")
    repository = tmp_path / "repository"
    write(repository, "project/a.o", "project/a.c")
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("*.o\n")
    assert sources(repository / "project") == ["a.c"]


def test_what_is_excluded_and_git_itself_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a", ".git/config", "sub/.git/config", "dist/a.wasm", "lockbuild.lock")
    assert sources(tmp_path, frozenset({tmp_path / "dist", tmp_path / "lockbuild.lock"})) == ["a"]


def test_the_digest_depends_on_content_and_the_executable_bit_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, "a", "sub/b")
    write(other, "sub/b", "a")
    (other / "empty" / "nested").mkdir(parents=True)
    os.utime(other / "a", (1, 1))
    (other / "a").chmod(0o600)
    digest = snapshot(one, store)
    assert snapshot(other, store) == digest
    (other / "a").chmod(0o700)
    assert snapshot(other, store) != digest
    (other / "a").chmod(0o644)
    (other / "a").write_text("b")
    assert snapshot(other, store) != digest


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, target: str) -> None:
    source = tmp_path / "source"
    write(source, "sub/a")
    (source / "link").symlink_to(target)
    with pytest.raises(UsageError, match="the link link leads out of the source directory"):
        snapshot(source, Store(tmp_path / "store"))


def test_a_link_inside_stays_a_link(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, "sub/a")
    (source / "sub" / "link").symlink_to("../sub/a")
    store = Store(tmp_path / "store")
    root = store.tree_path(snapshot(source, store))
    assert (root / "sub" / "link").readlink() == Path("../sub/a")


def test_a_fifo_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "pipe")
    with pytest.raises(UsageError, match="pipe is neither a file nor a link"):
        snapshot(source, Store(tmp_path / "store"))


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such directory"):
        snapshot(tmp_path / "absent", Store(tmp_path / "store"))
