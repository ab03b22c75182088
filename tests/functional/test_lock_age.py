"""Locking what has been there for a while: `lock --min-age`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.emscripten import new_world
from tests.support.package_index import Index
from tests.support.tiny import TinyWorld, tiny_world

NOW = datetime.now(UTC)


def ago(**before: int) -> str:
    return (NOW - timedelta(**before)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[TinyWorld, Index]]:
    with tiny_world(tmp_path) as made:
        made.archive.add("python3", "3.13.5-1")
        made.archive.add("libc6", "2.41-12")
        made.publish()
        index = Index(made.server)
        index.add("tool", "1.0", **{"upload-time": ago(days=30)})
        index.add("tool", "1.1", **{"upload-time": ago(days=8)})
        index.add("tool", "1.2", **{"upload-time": ago(hours=30)})
        with made.config.open("a") as config:
            config.write(f'[pypi]\nindexes = ["{index.url}"]\n')
        made.edit("toolchain.toml", '"greeting"]', '"greeting", "libc6", "python3"]')
        with (made.project / "toolchain.toml").open("a") as toolchain:
            toolchain.write('\n[tools.tool]\nfrom = "pypi"\nrequirement = "tool"\n')
        yield made, index


def locked(world: TinyWorld, *options: str) -> str:
    (world.project / "lockbuild.lock").unlink(missing_ok=True)
    world.run("lock", *options)
    text = (world.project / "lockbuild.lock").read_text()
    return text.partition("pkg:pypi/tool@")[2].partition('"')[0]


def test_what_was_uploaded_later_is_ignored(world: tuple[TinyWorld, Index]) -> None:
    tiny, _ = world
    assert locked(tiny) == "1.2"
    assert locked(tiny, "--min-age", "1d") == "1.2"
    assert locked(tiny, "--min-age", "36h") == "1.1"
    assert locked(tiny, "--min-age", "7d") == "1.1"
    assert locked(tiny, "--min-age", "2w") == "1.0"


def test_nothing_old_enough_is_an_error_that_says_what_there_is(world: tuple[TinyWorld, Index]) -> None:
    error = world[0].run("lock", "--min-age", "5w", status=2).err
    assert "every version of tool that meets that was uploaded after" in error
    assert "1.2, 1.1, 1.0" in error


def test_a_version_that_is_pinned_is_taken(world: tuple[TinyWorld, Index]) -> None:
    tiny, _ = world
    tiny.edit("toolchain.toml", 'requirement = "tool"', 'requirement = "tool==1.2"')
    assert locked(tiny, "--min-age", "7d") == "1.2"


def test_an_age_that_nobody_knows_is_told(world: tuple[TinyWorld, Index]) -> None:
    tiny, index = world
    index.add("tool", "1.3")
    result = tiny.run("lock", "--min-age", "7d")
    assert "the index does not say when it got tool-1.3-py3-none-any.whl" in result.err
    # The suite is of this minute: what is in it may be, too.
    assert "the index of forky is of 20" in result.err
    assert 'snapshot = "' in result.err


def test_a_kept_pin_is_not_asked_for_its_age(world: tuple[TinyWorld, Index]) -> None:
    tiny, _ = world
    assert locked(tiny) == "1.2"
    assert tiny.run("lock", "--min-age", "7d").err == ""
    assert "pkg:pypi/tool@1.2" in (tiny.project / "lockbuild.lock").read_text()


def test_a_commit_that_is_named_is_taken_and_its_age_told(
    world: tuple[TinyWorld, Index], tmp_path: Path
) -> None:
    tiny, _ = world
    repository = new_world(tmp_path).emsdk
    repository.time = int((NOW - timedelta(days=3)).timestamp())
    repository.tag("v1", repository.commit({"a": "1"}))
    with (tiny.project / "lockbuild.toml").open("a") as manifest:
        manifest.write(f'\n[sources.code]\nfrom = "git"\nurl = "{repository.url}"\nrev = "v1"\n')
    day = f"{NOW - timedelta(days=3):%Y-%m-%d}"
    assert f"was committed on {day}" in tiny.run("lock", "--min-age", "7d").err
    (tiny.project / "lockbuild.lock").unlink()
    assert "was committed on" not in tiny.run("lock", "--min-age", "2d").err


def test_the_newest_release_of_emscripten_that_is_old_enough(
    world: tuple[TinyWorld, Index], tmp_path: Path
) -> None:
    tiny, _ = world
    repositories = new_world(tmp_path)
    for version, days in (("4.0.18", 40), ("4.0.19", 9), ("4.0.20", 2)):
        repositories.emsdk.time = int((NOW - timedelta(days=days)).timestamp())
        repositories.release(version)
    with tiny.config.open("a") as config:
        config.write(repositories.toml())
    with (tiny.project / "toolchain.toml").open("a") as toolchain:
        toolchain.write('\n[tools.sdk]\nfrom = "emsdk"\nversion = ">=4.0.10"\nnode = false\n')
    lock = tiny.project / "lockbuild.lock"
    for age, version in (("1d", "4.0.20"), ("7d", "4.0.19"), ("2w", "4.0.18")):
        lock.unlink(missing_ok=True)
        tiny.run("lock", "--min-age", age)
        assert f'version = "{version}"' in lock.read_text()


@pytest.mark.parametrize("text", ["7", "d", "0d", "-1d", "1.5d", "7 d", "7m"])
def test_what_is_no_age(world: tuple[TinyWorld, Index], text: str) -> None:
    assert "is no age: write 36h, 7d or 2w" in world[0].run("lock", f"--min-age={text}", status=2).err
