"""The store as the other stages use it, on a real file system."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.descent import remove
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.store import Store, trees
from lockbuild.store.partial import Binding

ABSENT = Digest.of(b"absent")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def leftovers(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "tmp").iterdir())


def plant(directory: Path) -> None:
    (directory / "opt/tool/bin").mkdir(parents=True)
    (directory / "opt/tool/bin/run").write_bytes(b"run")
    (directory / "opt/tool/bin/run").chmod(0o700)
    (directory / "opt/tool/data").write_bytes(b"data")
    (directory / "opt/tool/link").symlink_to("bin/run")


def make_tree(store: Store) -> Digest:
    with store.new_tree() as tree:
        plant(tree.path)
        return tree.commit()


# Blobs


def test_a_blob_is_there_once_added(store: Store) -> None:
    digest = store.add_blob(b"bytes")
    assert digest == Digest.of(b"bytes")
    assert store.has_blob(digest)
    assert store.blob_path(digest).read_bytes() == b"bytes"
    assert store.verified_blob(digest) == store.blob_path(digest)
    assert store.add_blob(b"bytes") == digest
    assert leftovers(store) == []


def test_what_is_absent_says_so(store: Store) -> None:
    assert not store.has_blob(ABSENT)
    assert not store.has_tree(ABSENT)
    assert store.recall(ABSENT) is None
    assert store.roots() == []
    assert store.stats().blobs == 0
    for look in (store.blob_path, store.verified_blob, store.tree_path):
        with pytest.raises(IntegrityError, match=r"no such (blob|tree)"):
            look(ABSENT)
    assert not store.root.exists(), "looking makes nothing"


def test_a_damaged_blob_is_removed_when_it_is_used(store: Store) -> None:
    digest = store.add_blob(b"bytes")
    store.blob_path(digest).chmod(0o644)
    store.blob_path(digest).write_bytes(b"bytez")
    with pytest.raises(IntegrityError, match=r"now removed") as caught:
        store.verified_blob(digest)
    assert str(Digest.of(b"bytez")) in str(caught.value)
    assert str(digest) in str(caught.value)
    assert not store.has_blob(digest)


def test_add_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    digest = store.add_file(path, Digest.of(b"x" * 3_000_000))
    assert store.verified_blob(digest).stat().st_size == 3_000_000
    with pytest.raises(IntegrityError, match=str(ABSENT)):
        store.add_file(path, ABSENT)
    with pytest.raises(FetchError, match="No such file"):
        store.add_file(tmp_path / "nothing")
    assert leftovers(store) == []


def test_it_is_an_oci_image_layout(store: Store) -> None:
    digest = store.add_blob(b"bytes")
    assert json.loads((store.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert json.loads((store.root / "index.json").read_bytes()) == {"schemaVersion": 2, "manifests": []}
    assert (store.root / "blobs/sha256" / digest.hex).read_bytes() == b"bytes"


# Downloads


def test_a_download_in_pieces(store: Store) -> None:
    digest = Digest.of(b"onetwo")
    with store.partial(digest) as download:
        assert (download.size, download.complete) == (0, False)
        download.write(b"one")
        assert not store.has_blob(digest)
        download.write(memoryview(b"two"))
        assert download.size == 6
        path = download.commit()
        assert download.complete
        with pytest.raises(ValueError, match="has ended"):
            download.write(b"more")
    assert path == store.verified_blob(digest)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert list((store.root / "partial").iterdir()) == []
    with store.partial(digest) as download:
        assert download.complete
        assert download.commit() == path


def test_a_download_goes_on_where_it_ended(store: Store) -> None:
    digest = Digest.of(b"onetwo")
    with contextlib.suppress(ConnectionError), store.partial(digest) as download:
        download.write(b"one")
        raise ConnectionError
    with Store(store.root).partial(digest) as download:
        assert download.size == 3
        download.write(b"two")
        download.commit()
    assert store.has_blob(digest)


def test_a_download_begun_again(store: Store) -> None:
    digest = Digest.of(b"right")
    with store.partial(digest) as download:
        download.write(b"wrong and long")
        download.restart()
        assert download.size == 0
        download.write(b"right")
        download.commit()
    assert store.verified_blob(digest).read_bytes() == b"right"


def test_a_wrong_download_is_dropped(store: Store) -> None:
    with store.partial(ABSENT) as download:
        download.write(b"something else")
        with pytest.raises(IntegrityError, match=str(Digest.of(b"something else"))) as caught:
            download.commit()
    assert caught.value.on == str(ABSENT)
    assert not store.has_blob(ABSENT)
    with store.partial(ABSENT) as download:
        assert download.size == 0


def test_a_tampered_partial_is_not_trusted(store: Store) -> None:
    digest = Digest.of(b"onetwo")
    with store.partial(digest) as download:
        download.write(b"one")
    (store.root / "partial" / digest.hex).write_bytes(b"0ne")
    with store.partial(digest) as download:
        download.write(b"two")
        with pytest.raises(IntegrityError):
            download.commit()
    assert not store.has_blob(digest)


def test_an_untouched_download_leaves_nothing(store: Store) -> None:
    with store.partial(ABSENT):
        pass
    assert list((store.root / "partial").iterdir()) == []


def test_two_threads_at_one_download(store: Store) -> None:
    digest = Digest.of(b"bytes")
    waited = threading.Event()
    seen: list[bool] = []

    def second() -> None:
        with store.partial(digest, waiting=waited.set) as download:
            seen.append(download.complete)

    with store.partial(digest) as download:
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(10)
        assert seen == []
        download.write(b"bytes")
        download.commit()
    thread.join(10)
    assert seen == [True]
    assert store.has_blob(digest)


# Trees


def test_a_tree_is_canonical_on_disk(store: Store, tmp_path: Path) -> None:
    plant(tmp_path / "plain")
    digest = make_tree(store)
    path = store.tree_path(digest)
    assert digest == tree_digest(tmp_path / "plain") == tree_digest(path)
    modes = {entry.name: stat.S_IMODE(entry.lstat().st_mode) for entry in path.rglob("*")}
    assert modes == {"opt": 0o755, "tool": 0o755, "bin": 0o755, "run": 0o755, "data": 0o644, "link": 0o777}
    assert {entry.lstat().st_mtime_ns for entry in (path, *path.rglob("*"))} == {0}
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert leftovers(store) == []


def test_a_tree_is_on_the_disk_before_it_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []

    def sync(path: Path) -> None:
        synced.append(any((store.root / "trees/sha256").iterdir()))

    monkeypatch.setattr(trees, "sync_filesystem", sync)
    for small in (trees._SMALL, 0):
        monkeypatch.setattr(trees, "_SMALL", small)
        with store.new_tree() as staged:
            (staged.path / str(small)).write_bytes(b"data")
            digest = staged.commit()
        assert store.has_tree(digest)
        remove(store.tree_path(digest))
    assert synced == [False, False]


def test_a_small_tree_that_is_there_waits_for_no_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = []
    for _ in range(2):
        with store.new_tree() as staged:
            plant(staged.path)
            digests.append(staged.commit())
        monkeypatch.setattr(trees, "sync_filesystem", lambda path: pytest.fail("brought to the disk again"))
    assert digests[0] == digests[1]
    assert leftovers(store) == []


def test_any_modes_become_canonical(store: Store) -> None:
    with store.new_tree() as tree:
        (tree.path / "d").mkdir()
        (tree.path / "d/f").write_bytes(b"x")
        (tree.path / "d/f").chmod(0o4000)
        (tree.path / "d").chmod(0o1000)
        if os.geteuid() == 0:
            os.chown(tree.path / "d/f", 12345, 54321)
        digest = tree.commit()
    status = (store.tree_path(digest) / "d/f").stat()
    assert stat.S_IMODE(status.st_mode) == 0o644
    assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    assert store.verify() == []


def test_the_expected_digest_binds(store: Store) -> None:
    digest = make_tree(store)
    with store.new_tree() as tree:
        plant(tree.path)
        assert tree.commit(digest) == digest
    with store.new_tree() as tree:
        (tree.path / "f").write_bytes(b"x")
        with pytest.raises(IntegrityError) as caught:
            tree.commit(digest)
    found = tree_digest_of_one_file(store)
    assert str(digest) in str(caught.value)
    assert str(found) in str(caught.value)
    assert not store.has_tree(found)
    assert leftovers(store) == []


def tree_digest_of_one_file(store: Store) -> Digest:
    with store.scratch() as directory:
        (directory / "f").write_bytes(b"x")
        return tree_digest(directory)


def test_an_abandoned_tree_leaves_nothing(store: Store) -> None:
    with contextlib.suppress(ConnectionError), store.new_tree() as tree:
        plant(tree.path)
        raise ConnectionError
    with store.new_tree() as tree:
        plant(tree.path)
    assert leftovers(store) == []
    assert store.stats().trees == 0


def test_what_cannot_be_in_a_tree(store: Store) -> None:
    with store.new_tree() as tree:
        os.mkfifo(tree.path / "pipe")
        with pytest.raises(IntegrityError, match="pipe"):
            tree.commit()
    assert store.stats().trees == 0
    assert leftovers(store) == []


def test_memos(store: Store) -> None:
    key, tree = Digest.of(b"recipe"), Digest.of(b"tree")
    store.remember(key, tree)
    assert store.recall(key) == tree
    store.remember(key, ABSENT)
    assert Store(store.root).recall(key) == ABSENT


@pytest.mark.parametrize("position", [8, 30, 71, 72, 100, 136])
def test_a_damaged_memo_is_none(store: Store, position: int) -> None:
    key = Digest.of(b"recipe")
    store.remember(key, Digest.of(b"tree"))
    path = store.root / "derivations" / key.hex
    data = bytearray(path.read_bytes())
    data[position] = ord("f") if data[position] != ord("f") else ord("e")
    path.chmod(0o644)
    path.write_bytes(data)
    assert store.recall(key) is None
    path.write_bytes(data[:position])
    assert store.recall(key) is None


def test_directories_of_any_depth_can_be_removed(tmp_path: Path) -> None:
    """As an archive can hold them."""
    deep = tmp_path / "deep"
    for depth in range(1500):
        os.mkdir(f"{deep}{'/a' * depth}")
    (deep / "a" / "shut").mkdir(mode=0o500)
    remove(deep)
    assert not deep.exists()


def test_scratch_goes_away_with_all_in_it(store: Store) -> None:
    with store.scratch() as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (directory / "a/b").mkdir(parents=True)
        (directory / "a/b/f").touch()
        (directory / "a/b").chmod(0o500)
        (directory / "a").chmod(0o000)
    assert leftovers(store) == []


# Locks


def test_a_lock_excludes_threads_too(store: Store) -> None:
    waited, entered = threading.Event(), threading.Event()

    def second() -> None:
        with store.lock("image", waiting=waited.set):
            entered.set()

    with store.lock("image"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(10)
        assert not entered.is_set()
        with store.lock("another"):
            pass
    thread.join(10)
    assert entered.is_set()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "a\0", "x" * 201])
def test_lock_names_that_are_none(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a lock"), store.lock(name):
        pass


def test_many_may_use_the_store_and_collect_waits_for_them(store: Store) -> None:
    waited, done = threading.Event(), threading.Event()
    digest = store.add_blob(b"x")

    def clean() -> None:
        store.collect(lambda: (set(), set()), waiting=waited.set)
        done.set()

    with store.in_use(), Store(store.root).in_use():
        thread = threading.Thread(target=clean)
        thread.start()
        assert waited.wait(10)
        assert store.has_blob(digest)
        assert not done.is_set()
    thread.join(10)
    assert not store.has_blob(digest)


# Cost


def test_looking_up_imports_next_to_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = make_tree(store)
    program = (
        "import sys; from pathlib import Path; from lockbuild.model.digest import Digest\n"
        "before = set(sys.modules)\n"
        "from lockbuild.store import Store\n"
        "store, digest = Store(Path(sys.argv[1])), Digest(sys.argv[2])\n"
        "assert store.has_tree(digest) and store.tree_path(digest) and not store.has_blob(digest)\n"
        "assert store.recall(digest) is None\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.root), digest.hex],
        check=True,
        capture_output=True,
        text=True,
    )
    imported = set(done.stdout.split())
    heavy = {"filelock", "shutil", "tempfile", "ctypes", "concurrent.futures", "multiprocessing", "tarfile"}
    assert not imported & heavy
    assert not any(name.startswith("lockbuild.archive") for name in imported)


def test_a_store_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="Not a directory") as caught:
        Store(tmp_path / "file" / "store").add_blob(b"x")
    assert caught.value.on == str(tmp_path / "file" / "store")


def test_a_download_bound_by_a_sha512_is_a_blob_by_its_sha256(store: Store) -> None:
    data = b"bound otherwise"
    binding = Binding(Digest.of(b"its name"), None, hashlib.sha512(data).hexdigest())
    with store.partial(binding) as download:
        download.write(data[:5])
    with store.partial(binding) as download:
        assert download.size == 5
        download.write(data[5:])
        assert download.commit() == store.blob_path(Digest.of(data))
        assert download.blob == Digest.of(data)
    assert store.recall(binding.key) == Digest.of(data)
    with store.partial(binding) as download:
        assert download.complete
    assert list((store.root / "partial").iterdir()) == []


def test_whoever_waits_for_a_download_bound_by_a_sha512_has_it_then(store: Store) -> None:
    data = b"bound otherwise"
    binding = Binding(Digest.of(b"its name"), None, hashlib.sha512(data).hexdigest())
    waited = threading.Event()
    found: list[Digest | None] = []

    def wait() -> None:
        with store.partial(binding, waiting=waited.set) as download:
            found.append(download.blob)

    with store.partial(binding) as download:
        thread = threading.Thread(target=wait)
        thread.start()
        assert waited.wait(10)
        download.write(data)
        download.commit()
    thread.join(10)
    assert found == [Digest.of(data)]


@pytest.mark.parametrize("wrong", ["sha256", "sha512"])
def test_every_digest_of_a_download_is_checked(store: Store, wrong: str) -> None:
    data, other = b"these", b"others"
    binding = Binding(
        Digest.of(b"its name"),
        Digest.of(other if wrong == "sha256" else data),
        hashlib.sha512(other if wrong == "sha512" else data).hexdigest(),
    )
    with store.partial(binding) as download:
        download.write(data)
        with pytest.raises(IntegrityError, match="the 5 bytes received have the digest"):
            download.commit()
    assert not store.has_blob(Digest.of(data))
    assert store.recall(binding.key) is None
