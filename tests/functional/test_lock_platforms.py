"""A lock gets a platform more, or fewer, and every other pin stays."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.package_index import Index
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

OTHER = "linux/arm64" if str(PLATFORM) == "linux/amd64" else "linux/amd64"
OTHER_DEBIAN = OTHER.partition("/")[2]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[TinyWorld, Index]]:
    """The tiny world with a Python for both platforms, and an index with one wheel of the project `tool`."""
    with tiny_world(tmp_path) as made:
        made.archive.add("busybox", architecture=OTHER_DEBIAN, essential="yes")
        for architecture in ("amd64", "arm64"):
            made.archive.add("python3", "3.13.5-1", architecture=architecture)
            made.archive.add("libc6", "2.41-12", architecture=architecture)
        made.publish()
        index = Index(made.server)
        index.add("tool", "1.0", requires=["part"])
        index.add("part", "1.0")
        with made.config.open("a") as config:
            config.write(f'[pypi]\nindexes = ["{index.url}"]\n')
        made.edit("toolchain.toml", '"greeting"]', '"greeting", "libc6", "python3"]')
        with (made.project / "toolchain.toml").open("a") as toolchain:
            toolchain.write('\n[tools.tool]\nfrom = "pypi"\nrequirement = "tool"\n')
        yield made, index


def lock(world: TinyWorld) -> dict[str, Any]:
    return tomllib.loads((world.project / "lockbuild.lock").read_text())


def trees(world: TinyWorld, platform: str) -> list[dict[str, Any]]:
    return [tree for tree in lock(world)["trees"] if tree["platform"] == platform]


def sources(world: TinyWorld, platform: str) -> set[str]:
    return {
        source["purl"]
        for source in lock(world)["sources"]
        if any(tree.startswith(f"{platform}:") for tree in source["trees"])
    }


def test_a_platform_is_added_and_no_other_pin_changes(world: tuple[TinyWorld, Index]) -> None:
    tiny, index = world
    tiny.run("lock", "--materialise")
    before, own = trees(tiny, str(PLATFORM)), sources(tiny, str(PLATFORM))
    environments = lock(tiny)["environments"]
    # Meanwhile there is something newer of everything.
    index.add("tool", "2.0")
    index.add("part", "2.0")
    tiny.archive.add("greeting", "2.0", contents={"usr/share/greeting": "good day\n"})
    tiny.publish()
    tiny.run("lock", "--platform", OTHER)
    assert trees(tiny, str(PLATFORM)) == before
    assert sources(tiny, str(PLATFORM)) == own
    assert lock(tiny)["environments"] == environments
    assert [tree["name"] for tree in trees(tiny, OTHER)] == ["base", "derive.words", "tools.tool"]
    # Wheels are those that the other platform has; of Debian there is only what the mirror has now.
    assert {"pkg:pypi/tool@1.0", "pkg:pypi/part@1.0"} <= sources(tiny, OTHER)
    assert "pkg:deb/debian/greeting@2.0?arch=all&distro=forky" in sources(tiny, OTHER)
    tiny.run("lock", "--check")
    tiny.run("build")
    assert (tiny.project / "dist" / "out.txt").read_text() == "HELLO\nworld\n"


def test_an_added_platform_stays_until_all_is_locked_anew(world: tuple[TinyWorld, Index]) -> None:
    tiny, _ = world
    tiny.run("lock", "--platform", OTHER)
    first = (tiny.project / "lockbuild.lock").read_text()
    tiny.run("lock")
    tiny.run("lock", "--upgrade", "tool")
    assert (tiny.project / "lockbuild.lock").read_text() == first
    assert lock(tiny)["manifest"]["inputs"]["platforms"] == [str(PLATFORM)]
    (tiny.project / "lockbuild.lock").unlink()
    tiny.run("lock")
    assert trees(tiny, OTHER) == []


def test_platforms_of_the_manifest_come_and_go(world: tuple[TinyWorld, Index]) -> None:
    tiny, index = world
    tiny.run("lock", "--materialise")
    first = (tiny.project / "lockbuild.lock").read_text()
    index.add("tool", "2.0")
    tiny.edit("toolchain.toml", f'["{PLATFORM}"]', f'["{PLATFORM}", "{OTHER}"]')
    tiny.run("sync", status=1)
    tiny.run("lock")
    assert "pkg:pypi/tool@1.0" in sources(tiny, OTHER)
    assert "tool@2.0" not in (tiny.project / "lockbuild.lock").read_text()
    tiny.edit("toolchain.toml", f'["{PLATFORM}", "{OTHER}"]', f'["{PLATFORM}"]')
    tiny.run("lock")
    assert (tiny.project / "lockbuild.lock").read_text() == first


def test_a_platform_that_the_lock_is_not_for_is_told_with_the_remedy(
    world: tuple[TinyWorld, Index],
) -> None:
    tiny, _ = world
    tiny.edit("toolchain.toml", f'["{PLATFORM}"]', f'["{OTHER}"]')
    tiny.run("lock")
    error = tiny.run("sync", status=2).err
    assert f"the lock is not for {PLATFORM} (it is for {OTHER})" in error
    assert f"lockbuild lock --platform {PLATFORM}" in error
    tiny.run("lock", "--platform", str(PLATFORM))
    tiny.run("sync")


def test_materialising_is_for_the_platforms_that_are_named(world: tuple[TinyWorld, Index]) -> None:
    tiny, _ = world
    tiny.run("lock", "--materialise", "--platform", str(PLATFORM))
    assert all("digest" in tree for tree in trees(tiny, str(PLATFORM)))
    assert trees(tiny, OTHER) == []


@pytest.mark.parametrize("name", ["linux", "windows/amd64", "linux/mips"])
def test_what_is_no_platform(world: tuple[TinyWorld, Index], name: str) -> None:
    assert "--platform: " in world[0].run("lock", "--platform", name, status=2).err
