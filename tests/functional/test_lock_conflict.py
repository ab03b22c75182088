"""A lock that a real `git merge` left with conflicts: `lock` mends it and moves nothing that need not move."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockbuild.workflow.conflict import split
from tests.support.package_index import Index
from tests.support.tiny import TinyWorld, tiny_world


class Repository:
    """The project's repository."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self("init", "--quiet", "--initial-branch=main")
        self.commit()

    def __call__(self, *arguments: str, status: int = 0) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.test", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.directory, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def commit(self) -> None:
        self("add", "--all")
        self("commit", "--quiet", "--message=a change")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[TinyWorld, Index, Repository]]:
    """A project with three tools, locked and committed; then there is something newer of everything."""
    with tiny_world(tmp_path) as made:
        made.archive.add("python3", "3.13.5-1")
        made.archive.add("libc6", "2.41-12")
        made.publish()
        index = Index(made.server)
        for name in ("one", "two", "three"):
            for version in ("1.0", "1.1"):
                index.add(name, version)
        with made.config.open("a") as config:
            config.write(f'[pypi]\nindexes = ["{index.url}"]\n')
        made.edit("toolchain.toml", '"greeting"]', '"greeting", "libc6", "python3"]')
        with (made.project / "toolchain.toml").open("a") as toolchain:
            for name in ("one", "two", "three"):
                toolchain.write(f'\n[tools.{name}]\nfrom = "pypi"\nrequirement = "{name}<1.1"\n')
        made.run("lock", "--materialise")
        made.run("reproduce", "--record")
        repository = Repository(made.project)
        for name in ("one", "two", "three"):
            index.add(name, "0.9.1")
            index.add(name, "1.0.1")
        yield made, index, repository


def versions(world: TinyWorld) -> dict[str, str]:
    found = {}
    for source in lock(world)["sources"]:
        kind, _, rest = source["purl"].partition(":")[2].partition("/")
        name, _, version = rest.partition("?")[0].rpartition("@")
        found[name.rpartition("/")[2]] = version
        assert kind in ("deb", "pypi")
    return found


def lock(world: TinyWorld) -> dict[str, Any]:
    return tomllib.loads((world.project / "lockbuild.lock").read_text())


def require(world: TinyWorld, name: str, specifier: str) -> None:
    toolchain = world.project / "toolchain.toml"
    head, _, tail = toolchain.read_text().partition(f'requirement = "{name}')
    toolchain.write_text(f'{head}requirement = "{name}{specifier}"{tail.partition(chr(34))[2]}')


def both_change(world: tuple[TinyWorld, Index, Repository]) -> None:
    """`main` has a newer one, `theirs` a newer two; nobody asked for a newer three."""
    tiny, _, repository = world
    repository("checkout", "--quiet", "-b", "theirs")
    require(tiny, "two", "==1.1")
    tiny.run("lock")
    repository.commit()
    repository("checkout", "--quiet", "main")
    require(tiny, "one", "==1.1")
    tiny.run("lock", "--materialise")
    repository.commit()
    repository("merge", "theirs", status=1)
    assert "<<<<<<< " in (tiny.project / "lockbuild.lock").read_text()
    assert "<<<<<<< " not in (tiny.project / "toolchain.toml").read_text()


MERGED = {
    "busybox": "1.0",
    "greeting": "1.0",
    "libc6": "2.41-12",
    "python3": "3.13.5-1",
    "one": "1.1",
    "two": "1.1",
    "three": "1.0",
}


def test_each_side_keeps_what_it_changed_and_nothing_else_moves(
    world: tuple[TinyWorld, Index, Repository],
) -> None:
    tiny, _, _ = world
    both_change(world)
    for command in ("sync", "build"):
        error = tiny.run(command, status=2).err
        assert "there is an unresolved merge conflict in it" in error
        assert "run `lockbuild lock`" in error
    requests = len(tiny.server.paths())
    said = tiny.run("lock").err
    assert "pins kept of base, tools.one, tools.two, tools.three" in said
    assert "locked again" not in said
    assert len(tiny.server.paths()) == requests
    assert versions(tiny) == MERGED
    tiny.run("lock", "--check")
    # Digests that ours found out stay where its trees do; the image of a mixed environment is nobody's.
    digests = {tree["name"]: "digest" in tree for tree in lock(tiny)["trees"]}
    assert digests["base"]
    assert digests["tools.one"]
    assert "environments" not in lock(tiny)
    tiny.run("build")


def test_what_both_changed_is_locked_from_the_manifest(
    world: tuple[TinyWorld, Index, Repository],
) -> None:
    tiny, _, repository = world
    repository("checkout", "--quiet", "-b", "theirs")
    require(tiny, "one", ">0.9,<1.0.1")
    require(tiny, "two", "==1.1")
    tiny.run("lock")
    repository.commit()
    repository("checkout", "--quiet", "main")
    require(tiny, "one", "==1.1")
    tiny.run("lock")
    repository.commit()
    repository("merge", "theirs", status=1)
    manifest = tiny.project / "toolchain.toml"
    assert "resolve it" in tiny.run("lock", status=2).err  # first the manifest
    ours, theirs = split(manifest.read_text())
    assert 'requirement = "one==1.1"' in ours
    assert 'requirement = "one>0.9,<1.0.1"' in theirs
    manifest.write_text(ours.replace('"one==1.1"', '"one<1"'))
    said = tiny.run("lock").err
    assert "pins kept of base, tools.two, tools.three; locked again: tools.one" in said
    assert versions(tiny) == {**MERGED, "one": "0.9.1"}


def test_without_the_sides_in_git_only_what_is_the_same_on_both_stays(
    world: tuple[TinyWorld, Index, Repository],
) -> None:
    tiny, _, repository = world
    both_change(world)
    repository("add", "lockbuild.lock")
    said = tiny.run("lock").err
    assert "tools.three" in said.partition("pins kept of ")[2].partition(";")[0]
    assert versions(tiny) == MERGED
    tiny.run("lock", "--check")


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_every_style_of_markers(world: tuple[TinyWorld, Index, Repository], style: str) -> None:
    tiny, _, repository = world
    repository("config", "merge.conflictStyle", style)
    both_change(world)
    text = (tiny.project / "lockbuild.lock").read_text()
    assert ("|||||||" in text) == (style != "merge")
    ours, theirs = split(text)
    for side in (ours, theirs):
        tomllib.loads(side)
        assert "<<<<" not in side
    repository("add", "lockbuild.lock")
    tiny.run("lock")
    assert versions(tiny) == MERGED


def test_both_upgraded_and_ours_counts(world: tuple[TinyWorld, Index, Repository]) -> None:
    tiny, index, repository = world
    repository("checkout", "--quiet", "-b", "theirs")
    tiny.run("lock", "--upgrade", "three")
    repository.commit()
    assert versions(tiny)["three"] == "1.0.1"
    index.add("three", "1.0.2")
    repository("checkout", "--quiet", "main")
    tiny.run("lock", "--upgrade", "three")
    repository.commit()
    assert versions(tiny)["three"] == "1.0.2"
    repository("merge", "theirs", status=1)
    tiny.run("lock")
    assert versions(tiny)["three"] == "1.0.2"


def test_a_side_that_left_a_tree_alone_does_not_undo_the_other(
    world: tuple[TinyWorld, Index, Repository],
) -> None:
    """Theirs upgraded without a change of the manifest: both sides fit it, and only theirs differs from before."""
    tiny, _, repository = world
    repository("checkout", "--quiet", "-b", "theirs")
    tiny.run("lock", "--upgrade", "three")
    require(tiny, "two", "==1.1")
    tiny.run("lock")
    repository.commit()
    repository("checkout", "--quiet", "main")
    require(tiny, "one", "==1.1")
    tiny.run("lock")
    repository.commit()
    repository("merge", "theirs", status=1)
    tiny.run("lock")
    assert versions(tiny) == {**MERGED, "three": "1.0.1"}


def test_records_of_both_sides(world: tuple[TinyWorld, Index, Repository]) -> None:
    tiny, _, repository = world
    main = tiny.project / "main.txt"
    repository("checkout", "--quiet", "-b", "theirs")
    main.write_text("theirs\n")
    tiny.run("reproduce", "--record")
    repository.commit()
    repository("checkout", "--quiet", "main")
    main.write_text("ours\n")
    tiny.run("reproduce", "--record")
    repository.commit()
    repository("merge", "theirs", status=1)
    main.write_text("both\n")
    said = tiny.run("lock").err
    assert "records of tiny differ and are gone" in said
    assert "outputs" not in lock(tiny)
    assert versions(tiny) == {**MERGED, "one": "1.0", "two": "1.0"}
    assert all("digest" in tree for tree in lock(tiny)["trees"])
    assert lock(tiny)["environments"]


def test_rubbish_between_markers_is_locked_from_nothing(
    world: tuple[TinyWorld, Index, Repository],
) -> None:
    tiny, _, _ = world
    file = tiny.project / "lockbuild.lock"
    file.write_text(f"<<<<<<< a\n{file.read_text()}\n=======\nnot a lock\n>>>>>>> b\n")
    assert "pins kept of nothing" in tiny.run("lock").err
    assert versions(tiny)["three"] == "1.0.1"
    tiny.run("lock", "--check")
