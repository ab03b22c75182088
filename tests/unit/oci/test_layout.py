"""Image layouts in a tar: the bytes that are written, and what is refused when they are read."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockbuild.errors import FetchError, IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.oci import layout as layout_module
from lockbuild.oci.layout import (
    LayoutArchive,
    LayoutFile,
    blob_data,
    blob_file,
    blob_name,
    data_file,
    layout_size,
    parse_object,
    read_layout,
    write_layout,
)

INDEX = b'{"manifests":[],"schemaVersion":2}'
HELLO = b"hello"
BIG = bytes(range(256)) * 9000


def files() -> list[LayoutFile]:
    return [
        blob_data(HELLO),
        blob_file(Digest.of(BIG), len(BIG), lambda: (BIG[at : at + 5000] for at in range(0, len(BIG), 5000))),
        blob_data(HELLO),
    ]


def written(content: list[LayoutFile], beside: list[LayoutFile] | None = None) -> bytes:
    parts: list[bytes] = []
    write_layout(INDEX, content, lambda data: parts.append(bytes(data)), beside=beside or [])
    return b"".join(parts)


def entries(data: bytes) -> dict[str, bytes]:
    return {entry.name: entry.read() for entry in read_layout(io.BytesIO(data), name="x.tar")}


def test_write_and_read_are_inverse(tmp_path: Path) -> None:
    data = written(files(), [data_file("manifest.json", b"[]")])
    assert len(data) == layout_size(INDEX, files(), beside=[data_file("manifest.json", b"[]")])
    expected = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": INDEX,
        "manifest.json": b"[]",
        blob_name(Digest.of(HELLO)): HELLO,
        blob_name(Digest.of(BIG)): BIG,
    }
    assert entries(data) == expected
    assert list(entries(data)) == list(expected)
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with LayoutArchive(path) as archive:
        assert archive.names == list(expected)
        # In any order, and more than once.
        for name in (*reversed(expected), "index.json"):
            assert archive.entry(name).read() == expected[name]
        assert archive.entry(Digest.of(BIG)).digest == Digest.of(BIG)
        assert archive.has(Digest.of(HELLO))
        assert not archive.has(Digest("0" * 64))
        assert archive.json("index.json") == json.loads(INDEX)
        with pytest.raises(IntegrityError, match="blobs/sha256/0+: .* it is not there"):
            archive.entry(Digest("0" * 64))


def test_headers_are_canonical() -> None:
    with tarfile.open(fileobj=io.BytesIO(written(files()))) as tar:
        for member in tar:
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
            assert member.mode == (0o755 if member.isdir() else 0o644)
            assert not member.pax_headers


@pytest.mark.parametrize(("size", "match"), [(4, "more than the 4 bytes"), (6, "has 5 bytes and not the 6")])
def test_a_file_of_another_size_than_it_said(size: int, match: str) -> None:
    with pytest.raises(IntegrityError, match=match):
        written([LayoutFile("blobs/sha256/x", size, lambda write: write(HELLO))])


def other_tar(fill: Callable[[tarfile.TarFile], None], **options: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:  # type: ignore[call-overload]
        fill(tar)
    return out.getvalue()


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def test_what_others_write_is_read() -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, "./blobs", type=tarfile.DIRTYPE)
        add(tar, "./blobs/sha512/" + "5" * 128, b"other", mtime=1234, uname="somebody")
        add(tar, f"./{blob_name(Digest.of(HELLO))}", HELLO)
        add(tar, "abcdef/layer.tar", type=tarfile.SYMTYPE, linkname="../x/layer.tar")
        add(tar, "./index.json", INDEX)

    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        found = entries(other_tar(fill, format=form))
        assert found == {
            "blobs/sha512/" + "5" * 128: b"other",
            blob_name(Digest.of(HELLO)): HELLO,
            "index.json": INDEX,
        }


def both_ways(data: bytes, path: Path) -> Iterator[Callable[[], object]]:
    path.write_bytes(data)

    def by_seeking() -> None:
        with LayoutArchive(path) as archive:
            for name in archive.names:
                archive.entry(name).read()

    yield lambda: entries(data)
    yield by_seeking


@pytest.mark.parametrize(
    ("fill", "match"),
    [
        (lambda tar: add(tar, "blobs/../../x"), r"blobs/\.\./\.\./x: .* a path leads out"),
        (lambda tar: add(tar, "/etc/x"), "a path leads out"),
        (lambda tar: [add(tar, "index.json", data) for data in (b"1", b"2")], "has a file twice"),
        (
            lambda tar: add(tar, blob_name(Digest.of(HELLO)), type=tarfile.SYMTYPE, linkname="/etc/passwd"),
            "a blob is not a plain file",
        ),
        (lambda tar: add(tar, "blobs/sha256/x", type=tarfile.LNKTYPE, linkname="index.json"), "not a plain"),
        (lambda tar: add(tar, blob_name(Digest.of(HELLO)), b"hullo"), "does not have the digest"),
        (lambda tar: add(tar, blob_name(Digest.of(HELLO))), "does not have the digest"),
        (lambda tar: add(tar, "index.json", bytes(17 << 20)), "at most 16,777,216 are sensible"),
        (lambda tar: add(tar, "n" * (2 << 20)), "header of more than a megabyte"),
    ],
)
def test_what_is_refused(fill: Callable[[tarfile.TarFile], None], match: str, tmp_path: Path) -> None:
    for read in both_ways(other_tar(fill), tmp_path / "x.tar"):
        with pytest.raises(IntegrityError, match=match) as failure:
            read()
        assert "x.tar" in str(failure.value)
        assert failure.value.hint


@pytest.mark.parametrize("keep", [0, 300, 512, 3000, -9000, -1024, -1500])
def test_what_is_cut_short(keep: int, tmp_path: Path) -> None:
    data = written(files())
    data = data[:keep] if keep >= 0 else data[:keep]
    for read in both_ways(data, tmp_path / "x.tar"):
        with pytest.raises(
            IntegrityError, match="cut short|no tar, or a damaged one|this is no image archive"
        ):
            read()


def test_what_is_no_tar(tmp_path: Path) -> None:
    for read in both_ways(b"hello" * 1000, tmp_path / "x.tar"):
        with pytest.raises(IntegrityError, match="no tar"):
            read()
    with pytest.raises(FetchError, match="cannot read it"):
        LayoutArchive(tmp_path / "nothing")


def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "MAX_ENTRIES", 50)
    data = other_tar(lambda tar: [add(tar, f"blobs/{number}") for number in range(51)])
    for read in both_ways(data, tmp_path / "x.tar"):
        with pytest.raises(IntegrityError, match="more than 50 entries"):
            read()


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="^index.json: it is not"):
        parse_object(data, on="index.json")
