"""The canonical tar of real directories."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.errors import IntegrityError


def names_in(stream: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        return archive.getnames()


def tar_of(root: Path, *, only: str | None = None) -> bytes:
    out = io.BytesIO()
    write_canonical_tar(root, out, only=only)
    return out.getvalue()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    root = tmp_path / "small"
    (root / "bin").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "bin/tool").write_bytes(b"#!/bin/sh\n")
    (root / "bin/tool").chmod(0o744)
    (root / "bin-data").write_bytes(b"x" * 513)
    (root / "bin/link").symlink_to("../bin-data")
    (root / ("long-" * 30)).write_bytes(b"long")
    return root


def test_golden_digest(small: Path) -> None:
    # Whoever changes this changes the name of every tree: locks, images and caches go stale.
    assert (
        str(tree_digest(small)) == "sha256:2f0c2c5b54a34a930e762d065799b1e9c653de9af54e6de5ea96f63a8b4a3af0"
    )


def test_order_is_that_of_the_whole_path(small: Path) -> None:
    names = names_in(tar_of(small))
    assert names == ["bin", "bin-data", "bin/link", "bin/tool", "empty", "long-" * 30]


def test_gnu_tar_writes_the_same_bytes_where_its_formats_agree(tmp_path: Path) -> None:
    """GNU tar, told to write what the definition says, is an independent implementation of it."""
    root = tmp_path / "tree"
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/libx.so.1").write_bytes(os.urandom(70_000))
    (root / "usr/lib/libx.so").symlink_to("libx.so.1")
    (root / "usr/run.sh").write_bytes(b"echo\n")
    (root / "usr/lib/libx.so.1").chmod(0o644)
    for path in (root / "usr/run.sh", root / "usr", root / "usr/lib"):
        path.chmod(0o755)
    names = b"usr\0usr/lib\0usr/lib/libx.so\0usr/lib/libx.so.1\0usr/run.sh"
    options = "--format=ustar --no-recursion --null -T- --mtime=@0 --owner=:0 --group=:0 --numeric-owner"
    gnu = subprocess.run(
        ["tar", "-cf-", *options.split(), "--blocking-factor=1"],
        cwd=root,
        input=names,
        check=True,
        capture_output=True,
    ).stdout
    assert tar_of(root) == gnu


def test_stream_and_digest_agree(small: Path) -> None:
    assert tree_digest(small).hex == hashlib.sha256(tar_of(small)).hexdigest()


@pytest.mark.parametrize(
    "size", [0, 1, 512, (4 << 20) - 1536, (4 << 20) - 512, 4 << 20, (4 << 20) + 1, 9_000_001]
)
def test_files_that_do_not_fit_the_buffer(tmp_path: Path, size: int) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    data = os.urandom(size)
    (root / "a").write_bytes(data)
    (root / "b").write_bytes(b"after")
    stream = tar_of(root)
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        assert archive.extractfile("a").read() == data  # type: ignore[union-attr]
        assert archive.extractfile("b").read() == b"after"  # type: ignore[union-attr]
    assert tree_digest(root).hex == hashlib.sha256(stream).hexdigest()
    assert len(stream) == 512 + (size + 511) // 512 * 512 + 1024 + 1024


def test_an_empty_tree_is_two_zero_blocks(tmp_path: Path) -> None:
    assert tar_of(tmp_path) == bytes(1024)


def test_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    linked, copied = tmp_path / "linked", tmp_path / "copied"
    for root in (linked, copied):
        root.mkdir()
        (root / "a").write_bytes(b"same")
    (linked / "b").hardlink_to(linked / "a")
    (copied / "b").write_bytes(b"same")
    assert tree_digest(linked) == tree_digest(copied)


def test_only_takes_one_part_and_the_way_to_it(small: Path) -> None:
    names = names_in(tar_of(small, only="bin"))
    assert names == ["bin", "bin/link", "bin/tool"]
    names = names_in(tar_of(small, only="bin/tool"))
    assert names == ["bin", "bin/tool"]
    with pytest.raises(IntegrityError, match="no such entry"):
        tar_of(small, only="bin/tools")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))


@pytest.mark.parametrize("make", [_fifo, _socket, _device])
def test_special_files_are_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    (tmp_path / "d").mkdir()
    make(tmp_path / "d/odd")
    with pytest.raises(IntegrityError, match="neither a file, a directory nor a symbolic link") as caught:
        tree_digest(tmp_path)
    assert caught.value.on == "d/odd"


@pytest.mark.parametrize("name", [".wh.gone", ".wh..wh..opq"])
def test_whiteouts_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(IntegrityError, match="whiteout"):
        tree_digest(tmp_path)


def test_an_unreadable_root_is_an_integrity_error(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="No such file"):
        tree_digest(tmp_path / "absent")


def test_a_file_that_shrinks_meanwhile(tmp_path: Path) -> None:
    from lockbuild.archive.canonical import entries_digest, scan

    (tmp_path / "log").write_bytes(b"12345")
    entries = scan(tmp_path)
    (tmp_path / "log").write_bytes(b"123")
    with pytest.raises(IntegrityError, match="shorter"):
        entries_digest(tmp_path, entries)
