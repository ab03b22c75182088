"""Any part of a tree's tar is that part of the canonical tar."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockbuild.archive.canonical import write_canonical_tar
from lockbuild.serve.tree_tar import TreeTar


class Sink:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    def write_file(self, descriptor: int, offset: int, count: int) -> None:
        part = os.pread(descriptor, count, offset)
        assert len(part) == count
        self.data += part


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    (root / "a").mkdir()
    (root / "a/big").write_bytes(bytes(range(256)) * 3000)
    (root / "a/empty").touch()
    (root / "a/exact").write_bytes(b"x" * 512)
    (root / "a/program").write_text("#!/bin/sh\n")
    (root / "a/program").chmod(0o755)
    (root / ("long" * 40)).write_text("long")
    (root / "link").symlink_to("a/" + "x" * 120)
    return root


@pytest.fixture(scope="module")
def whole(tree: Path) -> bytes:
    out = io.BytesIO()
    write_canonical_tar(tree, out)
    return out.getvalue()


def test_the_whole(tree: Path, whole: bytes) -> None:
    tar, sink = TreeTar(tree), Sink()
    assert tar.size == len(whole)
    tar.send(sink, 0, tar.size)
    assert sink.data == whole


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_part(tree: Path, whole: bytes, data: st.DataObject) -> None:
    near = st.sampled_from(range(0, len(whole), 512)).flatmap(
        lambda at: st.integers(max(0, at - 2), min(len(whole), at + 2))
    )
    start, end = sorted((data.draw(near), data.draw(near)))
    sink = Sink()
    TreeTar(tree).send(sink, start, end - start)
    assert sink.data == whole[start:end]


def test_a_file_that_became_shorter(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1000)
    tar = TreeTar(tmp_path)
    (tmp_path / "f").write_bytes(b"x" * 10)
    with pytest.raises(OSError, match="shorter"):
        tar.send(Sink(), 0, tar.size)
