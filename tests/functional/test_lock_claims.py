"""What others published of a project's outputs: locked, compared with, told apart from what was recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiny import TinyWorld, tiny_world

BUILT = b"HELLO\nworld\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


def claim(world: TinyWorld, data: bytes, by: str = "tiny 1.2") -> None:
    """Have the project claim that out.txt is ``data``."""
    manifest = world.project / "lockbuild.toml"
    text = manifest.read_text().partition("\n[claims")[0]
    digest = hashlib.sha256(data).hexdigest()
    file = f'{{ path = "out.txt", size = {len(data)}, sha256 = "{digest}" }}'
    manifest.write_text(f'{text}\n[claims.tiny]\nby = "{by}"\nfiles = [{file}]\n')


def test_a_claim_decides_where_nothing_is_recorded(world: TinyWorld) -> None:
    claim(world, BUILT)
    world.run("lock")
    lock = (world.project / "lockbuild.lock").read_text()
    assert '[claims.tiny]\nby = "tiny 1.2"\n' in lock
    assert "[outputs" not in lock
    text = world.run("reproduce", "--check-hash").out
    assert text.startswith("tiny: reproduced, as claimed by tiny 1.2\n")
    (target,) = world.run("reproduce", "--check-hash", "--json").value["targets"]
    assert (target["claimed_by"], target["decisive"], target["same"]) == ("tiny 1.2", True, True)
    # lib/copy.txt was built, too, but nobody claimed anything of it.
    assert [file["path"] for file in target["files"]] == ["out.txt"]
    assert target["files"][0]["claimed"] == target["files"][0]["found"]


def test_a_claim_that_is_not_so_is_a_difference(world: TinyWorld) -> None:
    other = b"HELLO\nthere\n"
    claim(world, other)
    world.run("lock")
    result = world.run("reproduce", "--check-hash", status=1)
    assert "tiny: 1 of 1 outputs differ from what tiny 1.2 claims" in result.out
    assert f"claimed  12 bytes  {hashlib.sha256(other).hexdigest()}" in result.out
    assert f"found    12 bytes  {hashlib.sha256(BUILT).hexdigest()}" in result.out


def test_a_record_decides_and_the_claim_is_shown_beside_it(world: TinyWorld) -> None:
    claim(world, b"other\n")
    world.run("lock")
    world.run("reproduce", "--record")
    result = world.run("reproduce", "--check-hash")
    assert "tiny: reproduced, as the lock records" in result.out
    assert "tiny: 1 of 1 outputs differ from what tiny 1.2 claims" in result.out
    both = world.run("reproduce", "--check-hash", "--json").value["targets"]
    assert [(item["claimed_by"], item["decisive"], item["same"]) for item in both] == [
        (None, True, True),
        ("tiny 1.2", False, False),
    ]


def test_a_changed_claim_makes_the_lock_stale_and_locking_again_changes_nothing_else(
    world: TinyWorld,
) -> None:
    claim(world, BUILT)
    world.run("lock", "--materialise")
    before = (world.project / "lockbuild.lock").read_text()
    requests = len(world.server.paths())
    claim(world, BUILT, by="tiny 1.3")
    assert 'claims.tiny: ["tiny 1.2"' in world.run("lock", "--check", status=1).out
    assert "claims.tiny" in world.run("sync", status=1).err
    world.run("lock")
    assert (world.project / "lockbuild.lock").read_text() == before.replace("tiny 1.2", "tiny 1.3")
    assert len(world.server.paths()) == requests
    world.run("lock", "--check")
