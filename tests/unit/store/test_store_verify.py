"""`verify` finds every kind of damage, and nothing else."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lockbuild.events import Advanced, Event, Finished, Started
from lockbuild.model.digest import Digest
from lockbuild.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    for number in range(3):
        store.add_blob(b"%d" % number * 1000)
    with store.new_tree() as tree:
        (tree.path / "usr/bin").mkdir(parents=True)
        (tree.path / "usr/bin/run").write_bytes(b"run")
        (tree.path / "usr/bin/run").chmod(0o755)
        (tree.path / "usr/data").write_bytes(b"data" * 999)
        (tree.path / "usr/link").symlink_to("data")
        digest = tree.commit()
    store.remember(Digest.of(b"recipe"), digest)
    return store


def the_tree(store: Store) -> Path:
    return next((store.root / "trees/sha256").iterdir())


def keep_times(path: Path, change: Callable[[], object]) -> None:
    """Damage that hides: the times of the directory stay."""
    change()
    os.utime(path, ns=(0, 0))


def test_a_sound_store_has_no_damage_and_progress_adds_up(store: Store) -> None:
    events: list[Event] = []
    assert store.verify(events.append) == []
    assert isinstance(events[0], Started)
    assert (events[0].total, events[0].unit) == (5, "items")
    assert sum(event.amount for event in events if isinstance(event, Advanced)) == 5
    assert isinstance(events[-1], Finished)


def test_an_absent_store_has_no_damage(tmp_path: Path) -> None:
    assert Store(tmp_path / "nothing").verify() == []


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped byte": lambda tree: (tree / "usr/data").write_bytes(b"data" * 998 + b"dat\x60"),
    "shorter": lambda tree: (tree / "usr/data").write_bytes(b"data" * 998),
    "x bit lost": lambda tree: (tree / "usr/bin/run").chmod(0o644),
    "x bit won": lambda tree: (tree / "usr/data").chmod(0o755),
    "mode narrowed": lambda tree: (tree / "usr/data").chmod(0o600),
    "setuid": lambda tree: (tree / "usr/bin/run").chmod(0o4755),
    "directory's mode": lambda tree: (tree / "usr").chmod(0o777),
    "top's mode": lambda tree: tree.chmod(0o700),
    "added": lambda tree: keep_times(tree / "usr", lambda: (tree / "usr/new").touch()),
    "added directory": lambda tree: keep_times(tree, lambda: (tree / "empty").mkdir()),
    "removed": lambda tree: keep_times(tree / "usr", (tree / "usr/data").unlink),
    "renamed": lambda tree: keep_times(tree / "usr", lambda: (tree / "usr/data").rename(tree / "usr/date")),
    "link changed": lambda tree: (
        (tree / "usr/link").unlink(),
        (tree / "usr/link").symlink_to("date"),
        os.utime(tree / "usr/link", ns=(0, 0), follow_symlinks=False),
        os.utime(tree / "usr", ns=(0, 0)),
    ),
    "link to file": lambda tree: (
        (tree / "usr/link").unlink(),
        (tree / "usr/link").write_bytes(b"data" * 999),
    ),
    "time": lambda tree: os.utime(tree / "usr/data", (5, 5)),
    "whiteout": lambda tree: (tree / ".wh.usr").touch(),
    "fifo": lambda tree: os.mkfifo(tree / "usr/pipe"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_damage_to_a_tree_is_found_and_repaired(store: Store, kind: str) -> None:
    tree = the_tree(store)
    DAMAGES[kind](tree)
    (damage,) = store.verify(workers=1)
    assert (damage.kind, damage.path) == ("tree", tree)
    assert damage.reason
    assert store.verify(repair=True, workers=1) == [damage]
    assert not tree.exists()
    assert store.verify(workers=1) == []
    assert store.stats().blobs == 3


def test_every_byte_of_a_blob_counts(store: Store) -> None:
    chance = random.Random(7)
    for path in (store.root / "blobs/sha256").iterdir():
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.chmod(0o644)
        path.write_bytes(data)
    damaged = store.verify()
    assert [damage.kind for damage in damaged] == ["blob"] * 3
    assert damaged == sorted(damaged, key=lambda damage: damage.path)
    store.verify(repair=True)
    assert store.stats().blobs == 0


def test_strays_and_bad_memos(store: Store) -> None:
    (store.root / "blobs/sha256/notes.txt").touch()
    (store.root / "trees/sha256" / Digest.of(b"1").hex).touch()
    (store.root / "blobs/sha256" / Digest.of(b"2").hex).mkdir()
    (store.root / "derivations" / Digest.of(b"3").hex).write_text("sha256:nonsense")
    (store.root / "blobs/sha256" / Digest.of(b"4").hex).symlink_to("nowhere")
    assert sorted(damage.reason for damage in store.verify(repair=True)) == [
        "it does not match its own checksum",
        "it is not a directory",
        "it is not a file",
        "it is not a file",
        "its name is not a digest",
    ]
    assert store.verify() == []
