"""A source directory as a tree: git's ignore rules, and nothing of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.build.ignore import is_source, source_below, walk_source
from lockbuild.build.snapshot import snapshot
from lockbuild.errors import UsageError
from lockbuild.store import Store
from tests.support.users import as_ordinary_user


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def sources(root: Path, excluded: frozenset[Path] = frozenset()) -> list[str]:
    return [path for path, _ in walk_source(root, excluded)]


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


def test_what_is_excluded_is_known_by_what_it_is(tmp_path: Path) -> None:
    project, link = tmp_path / "project", tmp_path / "link"
    write(project, "a", "out/b", "made/c", "lockbuild.lock")
    link.symlink_to("project")
    (project / "to-out").symlink_to("out")
    other = tmp_path / "link" / ".." / "project"
    excluded = frozenset({link / "out", other / "made", other / "lockbuild.lock", project / "absent" / "x"})
    for root in (project, link, other):
        assert sources(root, excluded) == ["a", "to-out"]
    assert sources(project, frozenset({link / "to-out"})) == ["a", "lockbuild.lock", "made/c", "out/b"]


def test_a_repository_inside_begins_anew(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "build/a", "sub/.git", "sub/build/f", "sub/a.o", "sub/own", "deep/a.o")
    (tmp_path / ".gitignore").write_text("build/\n*.o\n")
    (tmp_path / "sub" / ".gitignore").write_text("own\n")
    assert sources(tmp_path) == [".gitignore", "sub/.gitignore", "sub/a.o", "sub/build/f"]
    (tmp_path / ".gitignore").write_text("sub\n")
    assert "sub/a.o" not in sources(tmp_path)


def test_what_git_tracks_all_the_same_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, "a.o", "a.c")
    (tmp_path / ".gitignore").write_text("*.o\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-f", "a.o"], cwd=tmp_path, check=True)
    assert sources(tmp_path) == [".gitignore", "a.c"]


def test_rules_above_are_found_through_a_link(tmp_path: Path) -> None:
    write(tmp_path, "repository/.git/config", "repository/project/a.o", "repository/project/a.c")
    (tmp_path / "repository" / ".gitignore").write_text("*.o\n")
    (tmp_path / "link").symlink_to("repository/project")
    assert sources(tmp_path / "link") == ["a.c"]


def test_a_source_directory_that_is_ignored_is_told(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "out/project/a")
    (tmp_path / ".gitignore").write_text("out/\n")
    with pytest.raises(UsageError, match=f"it is ignored by {tmp_path}/.gitignore"):
        snapshot(tmp_path / "out" / "project", Store(tmp_path / "store"))


def test_rules_above_that_cannot_be_read_are_told() -> None:
    with TemporaryDirectory() as place:  # the tests' own directory is closed to other users
        root = Path(place)
        root.chmod(0o755)
        write(root, ".git/config", "project/a", ".gitignore")
        (root / ".gitignore").chmod(0)

        def told() -> str:
            with pytest.raises(UsageError) as caught:
                sources(root / "project")
            return str(caught.value)

        said = as_ordinary_user(told) if os.geteuid() == 0 else told()
        assert said.startswith(f"{root}/.gitignore: it cannot be read: Permission denied")


def test_rules_are_read_from_plain_files_of_a_bounded_size_only(tmp_path: Path) -> None:
    for name in ("link", "fifo", "directory", "long"):
        write(tmp_path, f"{name}/a")
    write(tmp_path, "rules")
    (tmp_path / "rules").write_text("*\n")
    (tmp_path / "link" / ".gitignore").symlink_to("../rules")
    os.mkfifo(tmp_path / "fifo" / ".gitignore")
    write(tmp_path, "directory/.gitignore/b")
    for name in ("link", "fifo"):
        assert sources(tmp_path / name) == [".gitignore", "a"]
    assert sources(tmp_path / "directory") == [".gitignore/b", "a"]
    (tmp_path / "long" / ".gitignore").touch()
    os.truncate(tmp_path / "long" / ".gitignore", 1 << 40)
    with pytest.raises(UsageError, match="is longer than"):
        sources(tmp_path / "long")


def nested(directory: Path, levels: int, name: str = "d") -> Path:
    """``directory`` with a file below that many directories, as no path could name it."""
    directory.mkdir()
    here = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    return directory


def test_depth_is_bounded_by_the_system_only(tmp_path: Path) -> None:
    try:
        snapshot(nested(tmp_path / "deep", 1100), Store(tmp_path / "store"))
        with pytest.raises(UsageError, match="a path in it is longer than the system takes"):
            snapshot(nested(tmp_path / "deeper", 30, "d" * 200), Store(tmp_path / "store"))
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "deep", tmp_path / "deeper", tmp_path / "store"], check=True)


def test_holes_stay_holes(tmp_path: Path) -> None:
    write(tmp_path, "source/a")
    os.truncate(tmp_path / "source" / "a", 1 << 26)
    store = Store(tmp_path / "store")
    copied = store.tree_path(snapshot(tmp_path / "source", store)) / "a"
    assert copied.stat().st_size == 1 << 26
    assert copied.stat().st_blocks * 512 < 1 << 20
    with copied.open("rb") as stream:
        assert stream.read(2) == b"so"


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
    with pytest.raises(UsageError, match="there is no directory"):
        snapshot(tmp_path / "absent", Store(tmp_path / "store"))
