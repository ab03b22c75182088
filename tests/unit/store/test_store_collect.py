"""`collect` keeps what it is told to keep."""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockbuild.model.digest import Digest
from lockbuild.store import Store
from tests.support.users import as_ordinary_user


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def make_tree(store: Store, content: bytes) -> Digest:
    with store.new_tree() as tree:
        (tree.path / "d").mkdir()
        (tree.path / "d/file").write_bytes(content)
        return tree.commit()


def test_kept_and_not_kept(store: Store) -> None:
    blobs = [store.add_blob(b"%d" % number * 100) for number in range(4)]
    trees = [make_tree(store, b"%d" % number * 1000) for number in range(4)]
    for tree in trees:
        store.remember(Digest.of(tree.hex.encode()), tree)
    would = store.collect(lambda: (set(blobs[:2]), set(trees[:1])), dry_run=True)
    assert store.stats().blobs == 4
    assert store.stats().trees == 4
    did = store.collect(lambda: (set(blobs[:2]), set(trees[:1])))
    assert did == would
    assert did.blobs == tuple(sorted(blobs[2:]))
    assert did.trees == tuple(sorted(trees[1:]))
    assert did.freed == 2 * 100 + 3 * 1000
    assert [store.has_blob(blob) for blob in blobs] == [True, True, False, False]
    assert [store.has_tree(tree) for tree in trees] == [True, False, False, False]
    assert [store.recall(Digest.of(tree.hex.encode())) for tree in trees] == [trees[0], None, None, None]
    assert store.verify() == []
    assert list((store.root / "tmp").iterdir()) == []


def test_downloads_stay_while_wanted_or_under_way(store: Store) -> None:
    wanted, active, left = (Digest.of(name) for name in (b"wanted", b"active", b"left"))
    for digest in (wanted, left):
        with store.partial(digest) as download:
            download.write(b"half")
    with store.partial(active) as download:
        download.write(b"act")
        collected = store.collect(lambda: ({wanted}, set()))
        download.write(b"ive")
        download.commit()
    assert collected.freed == 4 + 3
    assert store.has_blob(active)
    assert [path.name for path in (store.root / "partial").iterdir()] == [wanted.hex]


def test_roots(store: Store, tmp_path: Path) -> None:
    locks = [tmp_path / name / "lockbuild.lock" for name in ("b", "a", os.fsdecode(b"\xff"))]
    for lock in locks:
        lock.parent.mkdir()
        lock.touch()
        assert not store.has_root(lock)
        store.add_root(lock, [Digest.of(b"old")])
        assert store.has_root(lock)
        store.add_root(lock, [Digest.of(b"b"), Digest.of(b"a")])
    assert [root.lock for root in store.roots()] == sorted(locks)
    assert {digest for root in store.roots() for digest in root.trees} == {Digest.of(b"a"), Digest.of(b"b")}
    locks[0].unlink()
    assert [root.lock for root in store.roots()] == sorted(locks[1:])
    assert len(list((store.root / "roots").iterdir())) == 3
    store.collect(lambda: (set(), set()))
    assert len(list((store.root / "roots").iterdir())) == 2
    locks[0].touch()
    store.add_root(locks[0], [])
    assert [root.lock for root in store.roots()] == sorted(locks)


def test_a_relative_root_is_kept_as_absolute(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.lock").touch()
    monkeypatch.chdir(tmp_path)
    store.add_root(Path("x.lock"), [])
    monkeypatch.chdir("/")
    assert [root.lock for root in store.roots()] == [tmp_path / "x.lock"]


def test_stats(store: Store) -> None:
    store.add_blob(b"x" * 10)
    with store.new_tree() as tree:
        (tree.path / "a").write_bytes(b"y" * 100)
        (tree.path / "b").hardlink_to(tree.path / "a")
        tree.commit()
    with store.partial(Digest.of(b"?")) as download:
        download.write(b"zzz")
    stats = store.stats()
    assert (stats.blobs, stats.blob_bytes) == (1, 10)
    assert (stats.trees, stats.tree_bytes) == (1, 100)
    assert (stats.partials, stats.partial_bytes) == (1, 3)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_an_ordinary_user_removes_read_only_trees() -> None:
    """Root may remove anything; this is about those who may not write to a read-only directory."""

    def work() -> list[str]:
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            store = Store(Path(directory, "store"))
            digest = make_tree(store, b"x")
            for name in ("d", "."):
                (store.tree_path(digest) / name).chmod(0o500)
            store.collect(lambda: (set(), set()))
            assert not store.has_tree(digest)
            with store.scratch() as scratch:
                (scratch / "a/b").mkdir(parents=True)
                (scratch / "a/b/f").touch()
                (scratch / "a/b").chmod(0)
                (scratch / "a").chmod(0)
            return os.listdir(store.root / "tmp")

    # What is imported when it is first used has to be there: the other user may not read it.
    importlib.import_module("lockbuild.archive.canonical")
    for module in ("collect", "durable", "memo", "staging", "trees"):
        importlib.import_module(f"lockbuild.store.{module}")
    for module in ("concurrent.futures.thread", "ctypes", "shutil"):
        importlib.import_module(module)
    assert as_ordinary_user(work) == []


def test_what_came_to_be_needed_while_a_collection_waited_is_kept(store: Store) -> None:
    needed: set[Digest] = set()
    waiting = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with store.in_use():
            collecting = pool.submit(store.collect, lambda: (set(needed), set()), waiting=waiting.set)
            assert waiting.wait(10)
            needed.add(store.add_blob(b"new"))
        assert collecting.result().blobs == ()
    assert all(store.has_blob(digest) for digest in needed)
