"""The tar stream that fills a container."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from lockbuild.errors import IntegrityError
from lockbuild.sandbox.upload import Upload, contents_stream, upload_stream


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "d").mkdir(parents=True)
    (root / "d/run").write_bytes(b"x" * 3_000_000)
    (root / "d/run").chmod(0o700)
    (root / ("ü" * 80)).write_text("long name")
    (root / "link").symlink_to("y" * 200)
    return root


def read(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: info for info in tar.getmembers()}


def test_owners_modes_and_order(source: Path) -> None:
    pieces = list(
        upload_stream([Upload("/tmp", mode=0o1777), Upload("/build/source", source), Upload("/build/build")])
    )
    assert max(map(len, pieces)) < 3 << 20
    found = read(b"".join(pieces))
    assert [(name, info.uid, info.gid, oct(info.mode)) for name, info in found.items()] == [
        ("build", 0, 0, "0o755"),
        ("build/build", 1000, 1000, "0o755"),
        ("build/source", 1000, 1000, "0o755"),
        ("build/source/d", 1000, 1000, "0o755"),
        ("build/source/d/run", 1000, 1000, "0o755"),
        ("build/source/link", 1000, 1000, "0o777"),
        ("build/source/" + "ü" * 80, 1000, 1000, "0o644"),
        ("tmp", 1000, 1000, "0o1777"),
    ]
    assert found["build/source/link"].linkname == "y" * 200
    assert {info.mtime for info in found.values()} == {0}


def test_a_mount_inside_another_is_no_parent_of_roots(source: Path) -> None:
    found = read(b"".join(upload_stream([Upload("/build/a/b"), Upload("/build/a")])))
    assert [(name, info.uid) for name, info in found.items()] == [
        *(("build", 0), ("build/a", 1000), ("build/a/b", 1000))
    ]


def test_contents_alone(source: Path) -> None:
    data = b"".join(contents_stream(source))
    assert list(read(data)) == ["d", "d/run", "link", "ü" * 80]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        stream = tar.extractfile("d/run")
        assert stream is not None
        assert stream.read() == b"x" * 3_000_000


def test_what_would_delete_files_in_a_container(source: Path) -> None:
    (source / ".wh.main.c").touch()
    with pytest.raises(IntegrityError, match="whiteout"):
        list(contents_stream(source))
