"""Disks that are full: while downloading, unpacking, deriving, building and putting outputs in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.disks import small_disk, used
from tests.support.tiny import TinyWorld

KB, MB = 1 << 10, 1 << 20
FREE_SPACE = (
    "hint: free some space (`lockbuild store gc` removes what no lock needs), or name another place with"
)


def left_behind(store: Path) -> list[Path]:
    """Work under way that nobody is at any more."""
    return [
        *store.glob("tmp/*"),
        *store.glob("work/sandbox-*"),
        *(path for path in store.glob("partial/*") if path.stat().st_size == 0),
    ]


@pytest.mark.parametrize(
    ("size", "told"),
    [
        pytest.param(600 * KB, "cannot write a download: No space left on device", id="downloading"),
        pytest.param(1500 * KB, "cannot unpack: No space left on device", id="unpacking"),
    ],
)
def test_a_sync_that_fills_the_disk(shared: TinyWorld, tmp_path: Path, size: int, told: str) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        store = disk / "store"
        result = shared.run("sync", store=store, status=4)
        assert told in result.err
        assert FREE_SPACE in result.err
        assert left_behind(store) == []
        assert list(store.glob("trees/sha256/*")) == []
        shared.run("store", "verify", store=store)
        assert used(store) < size // 2 if size < MB else used(store / "tmp") == 0
        os.system(f"mount -o remount,size={8 * MB} {disk}")
        assert shared.run("sync", "--json", store=store).value["made"] == ["base", "derive.words"]
        shared.run("store", "verify", store=store)
        shared.run("reproduce", store=store)


@pytest.mark.parametrize("files", [5, 12, 40])
def test_a_disk_without_room_for_names(shared: TinyWorld, tmp_path: Path, files: int) -> None:
    """Five are not enough for the store's directories, twelve not for its locks, forty not for a tree."""
    with small_disk(tmp_path / "disk", 16 * MB, files=files) as disk:
        result = shared.run("sync", store=disk / "store", status=4)
        assert "No space left on device" in result.err
        assert FREE_SPACE in result.err
        assert left_behind(disk / "store") == []
        os.system(f"mount -o remount,nr_inodes=10000 {disk}")
        shared.run("sync", store=disk / "store")
        shared.run("store", "verify", store=disk / "store")


def test_a_disk_that_fills_up_while_deriving_and_building(shared: TinyWorld, tmp_path: Path) -> None:
    shared.edit("toolchain.toml", "mkdir -p $OUT", "mkdir -p $OUT; head -c 30000000 /dev/zero >$OUT/big")
    shared.run("lock")
    with small_disk(tmp_path / "disk", 8 * MB) as disk:
        store = disk / "store"
        result = shared.run("sync", store=store, status=6)
        assert "error: derive.words: step 1 of 2 failed with status 1" in result.err
        assert "log: " in result.err
        assert left_behind(store) == []
        shared.edit("toolchain.toml", "; head -c 30000000 /dev/zero >$OUT/big", "")
        shared.run("lock")
        shared.run("sync", store=store)
        shared.edit(
            "lockbuild.toml", "mkdir lib;", "mkdir lib; dd if=/dev/zero of=big bs=1M count=30 || false;"
        )
        result = shared.run("build", store=store, status=6)
        assert "step 2 of 2 failed with status 1" in result.err
        assert (
            "builds write to the disk that has the store: free some space there, or name another"
            in result.err
        )
        assert left_behind(store) == []
        shared.edit("lockbuild.toml", "dd if=/dev/zero of=big bs=1M count=30 || false;", "")
        shared.run("build", store=store)
        assert left_behind(store) == []
        shared.run("store", "verify", store=store)


def test_outputs_that_do_not_fit_twice_on_the_disk_of_the_store(shared: TinyWorld, tmp_path: Path) -> None:
    """A file that fits into the build directory, but not a second time beside it."""
    shared.edit("lockbuild.toml", "mkdir lib;", "mkdir lib; head -c 3000000 /dev/urandom > lib/big.txt;")
    with small_disk(tmp_path / "disk", 8 * MB) as disk:
        shared.run("sync", store=disk / "store")
        (disk / "filler").write_bytes(bytes(8 * MB - used(disk) - 4 * MB))
        result = shared.run("build", store=disk / "store", status=4)
        assert "No space left on device" in result.err
        assert FREE_SPACE in result.err
        assert not (shared.project / "dist").exists()
        assert left_behind(disk / "store") == []


def test_outputs_that_do_not_fit_where_they_go(shared: TinyWorld, tmp_path: Path) -> None:
    shared.run("build", "-o", tmp_path / "before")
    shared.edit(
        "lockbuild.toml", "mkdir lib;", "mkdir lib; head -c 3000000 /dev/zero | tr '\\\\0' x > lib/big.txt;"
    )
    with small_disk(tmp_path / "disk", MB) as disk:
        result = shared.run("build", "-o", disk / "dist", status=4)
        assert (
            f"error: {disk / 'dist'}: the outputs cannot be put there: No space left on device" in result.err
        )
        assert "or put the outputs elsewhere with -o DIR" in result.err
        assert list(disk.iterdir()) == []


def test_a_project_disk_without_room_for_the_lock_or_the_log(shared: TinyWorld, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 * KB) as disk:
        world = shared.fork(disk)
        os.system(f"dd if=/dev/zero of={disk}/filler bs=1k >/dev/null 2>&1")
        before = (world.project / "lockbuild.lock").read_bytes()
        (world.project / "toolchain.toml").write_bytes(
            (world.project / "toolchain.toml").read_bytes().replace(b"a-z A-Z", b"A-Z a-z")
        )
        result = world.run("lock", status=4)
        assert (
            f"error: {world.project / 'lockbuild.lock'}: the lock cannot be written: No space left"
            in result.err
        )
        assert "hint: free some space" in result.err
        assert (world.project / "lockbuild.lock").read_bytes() == before
        assert [
            path.name for path in world.project.iterdir() if path.name.startswith(".lockbuild.lock")
        ] == []
        (world.project / "toolchain.toml").write_bytes((shared.project / "toolchain.toml").read_bytes())
        world.edit("lockbuild.toml", "mkdir lib;", "mkdir lib; yes | head -n 200000;")
        result = world.run("build", "-o", tmp_path / "out")
        assert "logs/tiny.log: the log cannot be written any more: No space left on device" in result.err
        assert (tmp_path / "out/out.txt").exists(), "a log is worth less than a build"
