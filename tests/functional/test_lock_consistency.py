"""What `lock` says of combinations that do not go together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.model.soundness import inputs_digest
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


def test_exports_that_contradict_one_another_are_refused_before_anything_is_derived(world: TinyWorld) -> None:
    world.run("lock")
    lock = world.project / "lockbuild.lock"
    before = lock.read_text()
    with (world.project / "lockbuild.toml").open("a") as manifest:
        manifest.write(
            '\n[overrides.derive.more]\nsteps = ["touch $OUT/derived"]\nneeds = ["words"]\n'
            'exports = { WORDS = "$OUT/words" }\n'
        )
    error = world.run("lock", status=2).err
    assert "error: derive.words: variable WORDS: " in error
    assert "derive.more and derive.words export it with different values" in error
    assert "'/opt/more/words' and '/opt/words/words'" in error
    assert "hint: have the same value in the exports of both, or leave it out of one" in error
    assert lock.read_text() == before
    # A lock that says so nevertheless is refused by a sync before it fetches or derives.
    world.edit("lockbuild.toml", "WORDS =", "OTHER =")
    world.run("lock")
    world.edit("lockbuild.toml", "OTHER =", "WORDS =")
    text = lock.read_text().replace("OTHER", "WORDS")
    manifest_digest = re.search(r'digest = "(sha256:[0-9a-f]+)"', text)
    assert manifest_digest
    inputs = tomllib.loads(text)["manifest"]["inputs"]
    lock.write_text(text.replace(manifest_digest[1], str(inputs_digest(inputs))))
    requests = len(world.server.paths())
    error = world.run("sync", status=2).err
    assert "derive.more and derive.words export it with different values" in error
    assert "deriving" not in error
    assert len(world.server.paths()) == requests
