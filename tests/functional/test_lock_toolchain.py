"""A toolchain locked by itself, without a project."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import lockbuild
from tests.support.tiny import TinyWorld, tiny_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


def run(world: TinyWorld, *arguments: str | Path, status: int = 0, cwd: Path | None = None) -> str:
    common = ("--store", world.store, "--backend", "bubblewrap")
    result = lockbuild(*common, *arguments, status=status, environ=world.environ, cwd=cwd or world.directory)
    return result.out + result.err


def test_its_lock_is_that_of_a_project_without_targets(world: TinyWorld, tmp_path: Path) -> None:
    lock = tmp_path / "deep" / "tiny.lock"
    lock.parent.mkdir()
    run(world, "lock", "--toolchain", "project/toolchain.toml", "-o", lock)
    world.run("lock")
    assert lock.read_text() == (world.project / "lockbuild.lock").read_text()
    # And it is kept up to date as any other.
    run(world, "lock", "--toolchain", "./toolchain.toml", "-o", lock, "--check", cwd=world.project)
    world.edit("toolchain.toml", '"greeting"]', '"greeting"]\nallow-expired = true')
    text = run(
        world, "lock", "--toolchain", "./toolchain.toml", "-o", lock, "--check", cwd=world.project, status=1
    )
    assert "base.debian.allow-expired" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "x.lock"], "-o goes with --toolchain: the lock of a project stands beside its manifest"),
        (["--toolchain", "./toolchain.toml"], "--toolchain needs -o FILE"),
        (["--check", "--upgrade"], "--check makes no lock, so it does not go with --upgrade"),
        (["--check", "--upgrade", "base"], "--check makes no lock, so it does not go with --upgrade"),
        (["--check", "--dry-run"], "--check makes no lock, so it does not go with --dry-run"),
        (
            ["--check", "--materialise", "--min-age", "7d"],
            "--check makes no lock, so it does not go with --materialise, --min-age",
        ),
        (["--check", "--platform", "linux/arm64", "--allow-expired"], "go with --platform, --allow-expired"),
        (["--compression", "zstd"], "--compression goes with --materialise"),
        (
            ["--toolchain", "./toolchain.toml", "-o", "x.lock", "--project", "."],
            "--toolchain locks a toolchain without a project, so --project does not go with it",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(world: TinyWorld, options: list[str], said: str) -> None:
    assert said in run(world, "lock", *options, status=2, cwd=world.project)
    assert not (world.project / "x.lock").exists()
    assert not (world.project / "lockbuild.lock").exists()


def test_it_can_be_materialised(world: TinyWorld, tmp_path: Path) -> None:
    lock = tmp_path / "tiny.lock"
    run(world, "lock", "--toolchain", world.project / "toolchain.toml", "-o", lock, "--materialise")
    trees = tomllib.loads(lock.read_text())["trees"]
    assert [tree["name"] for tree in trees if "digest" in tree] == ["base", "derive.words"]


def test_claims_of_a_toolchain_stand_in_its_lock(world: TinyWorld, tmp_path: Path) -> None:
    with (world.project / "toolchain.toml").open("a") as toolchain:
        toolchain.write(
            f'\n[claims.demo]\nby = "them"\nfiles = [{{ path = "a.js", size = 3, sha256 = "{"1" * 64}" }}]\n'
        )
    lock = tmp_path / "tiny.lock"
    run(world, "lock", "--toolchain", world.project / "toolchain.toml", "-o", lock)
    assert tomllib.loads(lock.read_text())["claims"]["demo"]["by"] == "them"
    # A project with the toolchain has them, too, though it has no such target.
    world.run("lock")
    assert "[claims.demo]" in (world.project / "lockbuild.lock").read_text()
    world.run("build")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--toolchain", "emscripten-debain", "-o", "x.lock"), "did you mean 'emscripten-debian'?"),
        (("--toolchain", "./nothing.toml", "-o", "x.lock"), "there is no file './nothing.toml'"),
    ],
)
def test_mistakes(world: TinyWorld, arguments: tuple[str, ...], told: str) -> None:
    assert told in run(world, "lock", *arguments, status=2)
