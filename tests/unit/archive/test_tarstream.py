"""The canonical tar of entries is that of the directory that they would be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lockbuild.archive.canonical import write_canonical_tar
from lockbuild.archive.extract import extract_tar
from lockbuild.archive.tarstream import CanonicalTar
from lockbuild.errors import IntegrityError


def test_it_is_that_of_the_directory(tmp_path: Path) -> None:
    out = io.BytesIO()
    tar = CanonicalTar(out)
    tar.directory(b"a")
    tar.file(b"a-b", 3, [b"x", b"", b"yz"])
    tar.file(b"a/run", 0, [], executable=True)
    tar.symlink(b"b" * 120, b"a/run")
    tar.file("ü".encode(), 600, [b"u" * 600])
    tar.finish()
    extract_tar(io.BytesIO(out.getvalue()), tmp_path / "tree")
    again = io.BytesIO()
    write_canonical_tar(tmp_path / "tree", again)
    assert again.getvalue() == out.getvalue()


def test_order_is_the_callers_duty() -> None:
    tar = CanonicalTar(io.BytesIO())
    tar.directory(b"b")
    for name in (b"a", b"b"):
        with pytest.raises(ValueError, match="comes after"):
            tar.directory(name)


@pytest.mark.parametrize("chunks", [[b"ab"], [b"ab", b"cd"]])
def test_the_size_must_be_right(chunks: list[bytes]) -> None:
    with pytest.raises(ValueError, match="3 bytes were announced"):
        CanonicalTar(io.BytesIO()).file(b"a", 3, chunks)


def test_whiteouts_are_refused() -> None:
    with pytest.raises(IntegrityError, match="whiteout"):
        CanonicalTar(io.BytesIO()).file(b"dir/.wh.a", 0, [])
