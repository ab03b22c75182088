"""A store whose bytes were changed behind lockbuild's back: found where somebody relies on them, and mended."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tiny import TinyWorld


def flip(path: Path, at: int = 20) -> None:
    """Change one bit, and leave size, mode and time as they were."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(status.st_mode & 0o7777)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def forget_trees(world: TinyWorld) -> None:
    """As if the trees had been collected."""
    for path in (*world.store.glob("trees/sha256/*"), *world.store.glob("derivations/*")):
        path.rename(world.directory / f"gone-{path.name}")


def blobs_of(world: TinyWorld, *names: str) -> list[Path]:
    """The blobs of the lock's sources of these names."""
    found = []
    for block in (world.project / "lockbuild.lock").read_text().split("[[sources]]")[1:]:
        if any(f"/{name}@" in block for name in names):
            found.append(world.store / "blobs/sha256" / block.split('sha256 = "sha256:')[1][:64])
    assert len(found) == len(names)
    return found


def test_a_flipped_byte_in_a_blob(forked: TinyWorld) -> None:
    forget_trees(forked)
    (blob,) = blobs_of(forked, "greeting")
    flip(blob)
    verified = forked.run("store", "verify", status=5)
    assert f"blob {blob}: its bytes have the digest sha256:" in verified.out
    assert "--repair removes it" in verified.out
    for command in (["sync"], ["build"], ["reproduce"]):
        if not blob.exists():
            forked.run("sync")
            forget_again(forked)
            flip(blob)
        result = forked.run(*command, status=5)
        assert (
            "error: pkg:deb/debian/greeting@1.0?arch=all&distro=forky: its file in the store was damaged"
            in (result.err)
        )
        assert "hint: run `lockbuild sync` to fetch it again" in result.err
        assert not blob.exists()
    forked.run("sync")
    forked.run("store", "verify")
    forked.run("reproduce")


def forget_again(world: TinyWorld) -> None:
    for path in world.store.glob("trees/sha256/*"):
        path.rename(world.directory / f"gone-again-{path.name}-{os.urandom(4).hex()}")


def test_all_damaged_blobs_are_told_at_once(forked: TinyWorld) -> None:
    forget_trees(forked)
    for blob in blobs_of(forked, "busybox", "greeting"):
        flip(blob)
    result = forked.run("sync", status=5)
    assert "2 sources cannot be used" in result.err
    assert "\n  pkg:deb/debian/busybox@1.0?" in result.err
    assert "\n  pkg:deb/debian/greeting@1.0?" in result.err
    assert forked.run("sync", "--json").value["made"] == ["base", "derive.words"]
    assert forked.run("store", "verify").out.startswith("every blob and tree has its digest")


def test_a_damaged_blob_offline_says_what_is_missing(forked: TinyWorld) -> None:
    forget_trees(forked)
    flip(blobs_of(forked, "greeting")[0])
    forked.run("sync", "--offline", status=5)
    result = forked.run("sync", "--offline", status=4)
    assert "1 source is not in the store, and the network must not be used" in result.err
    assert "would come from a Debian mirror: pool/main/g/greeting/greeting_1.0_all.deb" in result.err
    assert "hint: run once without --offline" in result.err


def base_of(world: TinyWorld) -> Path:
    return Path(world.run("store", "path", "base").out.strip())


def test_a_flipped_byte_in_a_tree(forked: TinyWorld) -> None:
    """Without a trace in the file's times: only what hashes it can find it."""
    base = base_of(forked)
    flip(base / "usr/share/greeting", 0)
    assert "nothing to do" in forked.run("sync").out
    for command in (["reproduce"], ["reproduce", "--record"], ["reproduce", "--twice"]):
        result = forked.run(*command, status=5)
        assert (
            f"error: {base}: base: the tree in the store is damaged: its contents have the digest"
            in result.err
        )
        assert "hint: run `lockbuild store verify --repair`, which removes what is damaged" in result.err
    result = forked.run("store", "verify", status=5)
    assert f"tree {base}: its contents have the digest sha256:" in result.out
    result = forked.run("store", "verify", "--repair", status=5)
    assert "removed; run `lockbuild sync` to bring it back" in result.out
    assert forked.run("sync", "--json").value["made"] == ["base"]
    forked.run("reproduce")
    forked.run("store", "verify")


def edit(base: Path) -> None:
    with (base / "usr/share/greeting").open("a") as file:
        file.write("more")


def add(base: Path) -> None:
    (base / "usr/share/new").touch()


def remove(base: Path) -> None:
    (base / "usr/share/greeting").unlink()


def replace(base: Path) -> None:
    (base / "usr/share/new").write_text("other\n")
    os.utime(base / "usr/share/new", (0, 0))
    (base / "usr/share/new").rename(base / "usr/share/greeting")


def relink(base: Path) -> None:
    (base / "usr/bin/sh").unlink()
    (base / "usr/bin/sh").symlink_to("greeting")


def open_up(base: Path) -> None:
    (base / "usr/share/greeting").chmod(0o666)


@pytest.mark.parametrize("change", [edit, add, remove, replace, relink, open_up])
def test_whoever_writes_to_a_tree_is_found_out_by_the_next_build(
    forked: TinyWorld, change: Callable[[Path], None]
) -> None:
    base = base_of(forked)
    change(base)
    result = forked.run("build", status=5)
    assert f"error: {base}: base: the tree in the store is damaged: " in result.err
    assert "`lockbuild store verify --repair`" in result.err
    assert not (forked.project / "dist").exists()


def test_a_damaged_compiler_is_told_before_the_failure_it_causes(forked: TinyWorld) -> None:
    base = base_of(forked)
    (base / "usr/bin/cat").unlink()
    result = forked.run("build", status=5)
    assert "the tree in the store is damaged" in result.err
    assert "failed with status" not in result.err


def test_no_tool_is_derived_from_a_damaged_base(forked: TinyWorld) -> None:
    flip(base_of(forked) / "usr/share/greeting", 0)
    forked.edit("toolchain.toml", "tr a-z A-Z", "tr a-z B-ZA")
    result = forked.run("lock", "--materialise", status=5)
    assert "base: the tree in the store is damaged" in result.err
    forked.run("store", "verify", "--repair", status=5)
    forked.run("lock", "--materialise")


def test_a_damaged_source_snapshot_is_not_built_from(forked: TinyWorld) -> None:
    (snapshot,) = (
        path
        for path in forked.store.glob("trees/sha256/*")
        if sorted(os.listdir(path)) == ["main.txt", "toolchain.toml"]
        and all(
            (path / name).read_bytes() == (forked.project / name).read_bytes() for name in os.listdir(path)
        )
    )
    flip(snapshot / "main.txt", 0)
    result = forked.run("reproduce", status=5)
    assert "error: " + str(snapshot) in result.err
    assert "/build/source: the tree in the store is damaged" in result.err
    (snapshot / "main.txt").write_text("other\n")
    forked.run("build", status=5)


def test_a_damaged_memo_is_no_memo(forked: TinyWorld) -> None:
    for memo in forked.store.glob("derivations/*"):
        flip(memo, 10)
    damaged = forked.run("store", "verify", status=5).out
    assert "memo " in damaged
    assert "it does not match its own checksum" in damaged
    forked.run("store", "verify", "--repair", status=5)
    forked.run("store", "verify")
    forked.run("reproduce")


def test_a_recorded_output_that_is_damaged_in_the_store_is_told(forked: TinyWorld) -> None:
    """It serves only to show where a new one differs."""
    text = (forked.project / "lockbuild.lock").read_text()
    flip(forked.store / "blobs/sha256" / text.rsplit("sha256:", 1)[1][:64], 0)
    forked.run("reproduce")
    (forked.project / "main.txt").write_text("worlt\n")
    result = forked.run("reproduce", status=1)
    assert (
        "warning: a recorded output cannot be compared with: its file in the store was damaged" in result.err
    )
    assert "different  out.txt" in result.out
    assert "first difference" not in result.out
    forked.run("store", "verify")
