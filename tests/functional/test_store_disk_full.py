"""A disk that is full, at every place where the store writes. The disk is a small tmpfs."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockbuild.archive.extract import extract_tar
from lockbuild.errors import ExitStatus, FetchError
from lockbuild.model.digest import Digest
from lockbuild.store import Store

SIZE = 2 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=400", "none", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"mount is not permitted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def archive(*sizes: int) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"d{number}/f")
            info.size = size
            tar.addfile(info, io.BytesIO(bytes(size)))
    out.seek(0)
    return out


def big_blob(store: Store) -> None:
    store.add_blob(bytes(2 * SIZE))


def big_file(store: Store) -> None:
    path = store.root.parent.parent / "big"
    path.write_bytes(bytes(2 * SIZE))
    store.add_file(path)


def big_download(store: Store) -> None:
    with store.partial(Digest.of(b"big")) as download:
        while True:
            download.write(bytes(100_000))


def big_tree(store: Store) -> None:
    with store.new_tree() as tree:
        extract_tar(archive(*([SIZE // 10] * 20)), tree.path, name="big.tar")


def many_files(store: Store) -> None:
    with store.new_tree() as tree:
        extract_tar(archive(*([1] * 500)), tree.path, name="many.tar")


def tree_by_hand(store: Store) -> None:
    with store.new_tree() as tree:
        (tree.path / "big").write_bytes(bytes(2 * SIZE))


def scratch(store: Store) -> None:
    with store.scratch() as directory:
        (directory / "big").write_bytes(bytes(2 * SIZE))


@pytest.mark.parametrize(
    "write", [big_blob, big_file, big_download, big_tree, many_files, tree_by_hand, scratch]
)
def test_a_full_disk_is_an_error_with_a_hint_and_nothing_is_left(
    disk: Path, write: Callable[[Store], None]
) -> None:
    store = Store(disk / "store")
    kept = store.add_blob(b"kept")
    free = used(disk)
    with pytest.raises(FetchError, match="No space left on device") as caught:
        write(store)
    assert caught.value.status is ExitStatus.FETCH
    assert caught.value.hint is not None
    assert "store gc" in caught.value.hint
    assert list((store.root / "tmp").iterdir()) == []
    assert list((store.root / "partial").iterdir()) == []
    assert used(disk) == free
    assert store.stats().blobs == 1
    assert store.verify() == []
    assert store.verified_blob(kept)
    store.add_blob(bytes(SIZE // 2))  # there is room again


def test_a_store_that_cannot_even_begin(disk: Path) -> None:
    (disk / "filler").write_bytes(bytes(SIZE - 8192))
    for number in range(400):
        try:
            (disk / f"f{number}").touch()
        except OSError:
            break
    with pytest.raises(FetchError, match="No space left on device"):
        Store(disk / "store").add_blob(b"x")
    for path in disk.glob("f*"):
        path.unlink()
    digest = Store(disk / "store").add_blob(b"x")
    assert Store(disk / "store").verified_blob(digest)
    assert (disk / "store/oci-layout").read_bytes()


def used(disk: Path) -> int:
    return sum(path.lstat().st_blocks for path in disk.rglob("*"))
