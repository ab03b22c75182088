"""Toolchains of several files from the command line: the lock has the result, and every file counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiny import PROJECT, TinyWorld, tiny_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


def test_the_lock_shows_the_result_only(world: TinyWorld) -> None:
    world.run("lock", "--materialise")
    plain = (world.project / "lockbuild.lock").read_text()
    (world.project / "base.toml").write_text(
        (world.project / "toolchain.toml")
        .read_text()
        .replace(', "greeting"]', "]")
        .replace("tr a-z", "tr a-y")
    )
    (world.project / "toolchain.toml").write_text(
        'schema = 1\nname = "tiny"\nextends = "./base.toml"\n\n[base.debian]\npackages = ["busybox", "greeting"]\n'
    )
    (world.project / "lockbuild.toml").write_text(
        f"{PROJECT}\n[overrides.derive.words]\n"
        'steps = ["mkdir -p $OUT", "cat /usr/share/greeting | tr a-z A-Z > $OUT/words"]\n'
    )
    world.run("lock", "--check")
    world.run("lock", "--materialise")
    assert (world.project / "lockbuild.lock").read_text() == plain
    world.run("build")
    assert (world.project / "dist" / "out.txt").read_text() == "HELLO\nworld\n"


def test_every_file_is_looked_at_before_nothing_is_done(world: TinyWorld) -> None:
    """`lock --check` and `sync` answer from a stamp, which every file of the toolchain belongs to."""
    (world.project / "toolchain.toml").rename(world.project / "base.toml")
    (world.project / "toolchain.toml").write_text('schema = 1\nname = "tiny"\nextends = "./base.toml"\n')
    world.run("lock")
    world.run("sync")
    world.run("lock", "--check")
    world.edit("base.toml", "tr a-z A-Z", "tr a-y A-Y")
    changed = world.run("lock", "--check", status=1).out
    assert "derive.words.steps" in changed
    world.run("sync", status=1)


def test_an_override_locks_only_what_it_touches(world: TinyWorld) -> None:
    world.run("lock", "--materialise")
    requests = len(world.server.paths())
    with (world.project / "lockbuild.toml").open("a") as manifest:
        manifest.write('\n[overrides.derive.words]\nexports = { LOUD = "1" }\n')
    assert "derive.words.exports.LOUD" in world.run("lock", "--check", status=1).out
    world.run("lock")
    assert len(world.server.paths()) == requests
    assert 'exports = { LOUD = "1", WORDS = "$OUT/words" }' in (world.project / "lockbuild.lock").read_text()
