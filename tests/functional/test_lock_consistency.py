"""What `lock` says of combinations that do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emscripten import new_world
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


def test_a_note_is_told_and_the_lock_written(world: TinyWorld, tmp_path: Path) -> None:
    repositories = new_world(tmp_path)
    repositories.release("4.0.19")
    with world.config.open("a") as config:
        config.write(repositories.toml())
    with (world.project / "toolchain.toml").open("a") as toolchain:
        toolchain.write('\n[tools.sdk]\nfrom = "emsdk"\nversion = "4.0.19"\nnode = false\n')
    world.run("lock")
    (world.project / "CMakeLists.txt").write_text("add_compile_options(-fwasm-exceptions)\n")
    told = world.run("lock").err
    assert (
        "warning: targets.tiny: it uses -fwasm-exceptions, and with that Emscripten 4.0.19 may give" in told
    )
    assert "hint: build with --backend bubblewrap" in told
    assert world.run("lock", "--check").err == ""


def test_what_cannot_work_is_refused_and_nothing_written(world: TinyWorld) -> None:
    wrong = "mac" if str(PLATFORM) == "linux/amd64" else "win"
    url = f"https://storage.example.test/builds/{wrong}/{'a' * 40}/wasm-binaries.tar.xz"
    world.run("lock")
    before = (world.project / "lockbuild.lock").read_bytes()
    with (world.project / "toolchain.toml").open("a") as toolchain:
        toolchain.write(f'\n[tools.sdk]\nfrom = "archive"\nurl = "{url}"\nsha256 = "{"0" * 64}"\n')
    error = world.run("lock", status=2).err
    assert f"error: tools.sdk: its archive is the SDK for {wrong}/amd64, not for {PLATFORM}: {url}" in error
    assert 'hint: use from = "emsdk"' in error
    assert (world.project / "lockbuild.lock").read_bytes() == before
