"""Unpacking real and hostile archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from lockbuild.archive.extract import extract_archive, extract_tar, extract_zip, unpack_tar
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import FetchError, IntegrityError

Member = tuple[str, bytes, dict[str, object]]


def entry(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **fields: object) -> Member:
    return name, data, {"type": kind, "mode": 0o644, **fields}


def link(name: str, target: str) -> Member:
    return entry(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> Member:
    return entry(name, tarfile.LNKTYPE, linkname=target)


def directory(name: str) -> Member:
    return entry(name, tarfile.DIRTYPE)


def tar(*members: Member, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for name, data, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def unpack(data: bytes, place: Path, **options: int) -> Path:
    destination = place / "in" / "destination"
    extract_tar(io.BytesIO(data), destination, name="evil.tar", **options)  # type: ignore[arg-type]
    return destination


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with something outside of the destination to attack."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/secret").write_bytes(b"untouched")
    (tmp_path / "in/secret").chmod(0o600)
    return tmp_path


HOSTILE = {
    "dot-dot": ([entry("../secret", data=b"x")], r"'\.\.'"),
    "dot-dot in the middle": ([directory("a"), entry("a/../../secret", data=b"x")], r"'\.\.'"),
    "dot-dot that stays inside": ([entry("a/../b", data=b"x")], r"'\.\.'"),
    "absolute": ([entry("/tmp/lockbuild-absolute", data=b"x")], "absolute"),
    "absolute after dot": ([entry("//etc/x", data=b"x")], "absolute"),
    "link to an absolute path": ([link("l", "/etc/passwd")], "absolute"),
    "link that leads out": ([link("l", "../secret")], "leads out"),
    "deep link that leads out": ([directory("a"), link("a/l", "../../secret")], "leads out"),
    "link with slashes and dots": ([link("l", ".//./../secret")], "leads out"),
    "link that climbs after descending": ([directory("a"), link("l", "a/../../secret")], "leads out"),
    "climb through an inner link": (
        [directory("a"), directory("a/b"), link("a/b/up", "../.."), link("l", "a/b/up/../secret")],
        "climbs from what is not a directory",
    ),
    "climb through a link made later": (
        [directory("a"), link("l", "a/up/../secret"), link("a/up", "..")],
        "climbs from what is not a directory",
    ),
    "climb through a link to a link": (
        [directory("d"), link("d/s", "."), link("l", "d/s/x/../../../secret"), directory("d/x")],
        "climbs from what is not a directory|leads out",
    ),
    "climb from nothing": ([link("l", "a/b/../../x")], "climbs from what is not a directory"),
    "write through a link": ([link("l", "."), entry("l/x", data=b"x")], "through a symbolic link"),
    "write through a link in the middle": (
        [directory("a"), link("a/l", ".."), entry("a/l/in/x", data=b"x")],
        "through a symbolic link",
    ),
    "file in place of a link": ([link("l", "a"), entry("l", data=b"x")], "a symbolic link of that name"),
    "link in place of a file": ([entry("l", data=b"x"), link("l", "a")], "a file of that name"),
    "link in place of a link": ([link("l", "a"), link("l", "b")], "a symbolic link of that name"),
    "file in place of a directory": ([directory("a"), entry("a", data=b"x")], "a directory of that name"),
    "link in place of a directory": ([directory("a"), link("a", "b")], "a directory of that name"),
    "directory in place of a file": ([entry("a", data=b"x"), directory("a")], "where a file stands"),
    "entry below a file": ([entry("a", data=b"x"), entry("a/b", data=b"x")], "where a file stands"),
    "directory in place of a link": ([link("a", "b"), directory("a")], "through a symbolic link"),
    "hard link out": ([hard("l", "../secret")], r"'\.\.'"),
    "absolute hard link": ([hard("l", "/etc/passwd")], "absolute"),
    "hard link to nothing": ([hard("l", "nothing")], "not in the archive"),
    "hard link to nothing in no directory": ([hard("l", "no/thing")], "not in the archive"),
    "hard link to a directory": ([directory("a"), hard("l", "a")], "a directory, not to a file"),
    "hard link to the top": ([hard("l", ".")], "leads to a directory"),
    "hard link through a link": (
        [directory("a"), entry("a/f"), link("s", "a"), hard("l", "s/f")],
        "through a symbolic link",
    ),
    "hard link to a link out of place": (
        [directory("a"), directory("a/b"), link("a/b/s", "../../x"), hard("l", "a/b/s")],
        "leads out",
    ),
    "character device": ([entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3)], "a device"),
    "block device": ([entry("sda", tarfile.BLKTYPE, devmajor=8)], "a device"),
    "fifo": ([entry("pipe", tarfile.FIFOTYPE)], "a fifo"),
    "file at the top": ([entry("./.", data=b"")], "only a directory"),
    "link at the top": ([link(".", "x")], "only a directory"),
    "empty link": ([link("l", "")], "empty"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_hostile_archives_are_refused_and_nothing_outside_changes(place: Path, case: str, form: int) -> None:
    members, message = HOSTILE[case]
    before = sorted(path for path in place.rglob("*"))
    with pytest.raises(IntegrityError, match=message) as caught:
        unpack(tar(*members, form=form), place)
    assert caught.value.on is not None
    assert caught.value.on.startswith("evil.tar")
    assert (place / "in/secret").read_bytes() == b"untouched"
    assert stat.S_IMODE((place / "in/secret").stat().st_mode) == 0o600
    assert not Path("/tmp/lockbuild-absolute").exists()
    outside = sorted(path for path in place.rglob("*") if "destination" not in path.parts)
    assert outside == before


def test_the_error_names_archive_and_entry(place: Path) -> None:
    with pytest.raises(IntegrityError) as caught:
        unpack(tar(entry("ok"), directory("a"), entry("a/../../x")), place)
    assert str(caught.value).splitlines()[0] == (
        "evil.tar: a/../../x: the archive is not safe to unpack: the name has a '..'"
    )


def test_links_inside_are_kept_as_they_are_written(place: Path) -> None:
    members = [
        directory("usr"),
        directory("usr/lib"),
        link("usr/lib/a", "../share/./x"),
        link("b", "usr/lib/../y"),
    ]
    root = unpack(tar(*members, link("dangling", "nowhere"), link("usr/top", "..")), place)
    targets = {name: os.readlink(root / name) for name in ("usr/lib/a", "b", "dangling", "usr/top")}
    assert targets == {
        "usr/lib/a": "../share/./x",
        "b": "usr/lib/../y",
        "dangling": "nowhere",
        "usr/top": "..",
    }


@pytest.mark.parametrize(
    ("mode", "kept"),
    [(0o4755, 0o755), (0o2711, 0o755), (0o1644, 0o644), (0o000, 0o644), (0o666, 0o644), (0o4644, 0o644)],
)
def test_modes_are_normalised(place: Path, mode: int, kept: int) -> None:
    root = unpack(tar(entry("f", data=b"x", mode=mode), entry("d", tarfile.DIRTYPE, mode=mode)), place)
    assert stat.S_IMODE((root / "f").stat().st_mode) == kept
    assert stat.S_IMODE((root / "d").stat().st_mode) == 0o755


def test_umask_does_not_matter(place: Path) -> None:
    before = os.umask(0o077)
    try:
        root = unpack(tar(entry("a/b/f", data=b"x", mode=0o755)), place)
    finally:
        os.umask(before)
    assert {stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b", "a/b/f")} == {0o755}


def test_times_are_the_epoch(place: Path) -> None:
    members = [
        directory("a"),
        entry("a/f", data=b"x", mtime=9),
        link("a/l", "f"),
        hard("a/h", "a/f"),
        entry("b/c/d"),
    ]
    root = unpack(tar(*members), place)
    assert {path.lstat().st_mtime_ns for path in (root, *root.rglob("*"))} == {0}


def test_hard_links_share_and_a_later_file_does_not_write_into_them(place: Path) -> None:
    root = unpack(tar(entry("a", data=b"one"), hard("b", "a"), hard("a", "a"), hard("c", "./a")), place)
    assert (root / "a").samefile(root / "b")
    again = unpack(tar(entry("x", data=b"one"), hard("y", "x"), entry("x", data=b"two")), place)
    assert ((again / "x").read_bytes(), (again / "y").read_bytes()) == (b"two", b"one")


def test_a_hard_link_to_a_symbolic_link_is_that_link(place: Path) -> None:
    root = unpack(tar(link("l", "x"), hard("m", "l")), place)
    assert (root / "m").readlink() == Path("x")


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize(
    "name", ["\udcff\udcfe", "é" * 100, "n" * 255, "\udcff" * 120, "new\nline", "a" * 120 + "/" + "b" * 120]
)
def test_any_name(place: Path, name: str, form: int) -> None:
    root = unpack(tar(entry(name, data=b"x"), link("l", name), form=form), place)
    path = os.fsencode(root) + b"/" + name.encode("utf-8", "surrogateescape")
    with open(path, "rb") as file:
        assert file.read() == b"x"
    assert os.readlink(os.fsencode(root / "l")) == name.encode("utf-8", "surrogateescape")


def test_a_name_that_no_file_system_takes_is_an_error(place: Path) -> None:
    with pytest.raises(FetchError, match="File name too long"):
        unpack(tar(entry("n" * 256)), place)


def test_strip(place: Path) -> None:
    members = [
        directory("top"),
        entry("top/a/f", data=b"x"),
        entry("readme"),
        hard("top/h", "top/a/f"),
        link("top/l", "a"),
    ]
    root = unpack(tar(*members), place, strip=1)
    assert sorted(os.fspath(path.relative_to(root)) for path in root.rglob("*")) == ["a", "a/f", "h", "l"]


def test_strip_does_not_hide_what_is_unsafe(place: Path) -> None:
    for name in ("../x/secret", "/etc/x", "top/../../secret"):
        with pytest.raises(IntegrityError):
            unpack(tar(entry(name)), place, strip=1)
    with pytest.raises(IntegrityError, match="left out"):
        unpack(tar(entry("readme"), hard("top/l", "readme")), place, strip=1)
    with pytest.raises(IntegrityError, match="leads out"):
        unpack(tar(link("top/l", "../readme")), place, strip=1)


def test_old_tar_without_magic(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    subprocess.run(["tar", "-cf", "old.tar", "--format=v7", "f"], cwd=tmp_path, check=True)
    extract_archive(tmp_path / "old.tar", tmp_path / "out", name="old.tar")
    assert (tmp_path / "out/f").read_bytes() == b"old"


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": _zstd,
}


@pytest.mark.parametrize("compression", COMPRESSORS)
def test_every_compression_is_told_from_the_bytes(tmp_path: Path, compression: str) -> None:
    data = COMPRESSORS[compression](tar(entry("a/f", data=b"x" * 5000, mode=0o755)))
    (tmp_path / "archive").write_bytes(data)
    extract_archive(tmp_path / "archive", tmp_path / "out", name="archive")
    assert (tmp_path / "out/a/f").read_bytes() == b"x" * 5000


@pytest.mark.parametrize("compression", COMPRESSORS)
def test_every_truncation_is_noticed(tmp_path: Path, compression: str) -> None:
    members = [entry(f"f{number}", data=os.urandom(700)) for number in range(8)]
    plain = tar(*members)
    # Less what only pads the last record: its absence loses nothing.
    whole = COMPRESSORS[compression](plain[: plain.rstrip(b"\0").__len__() // 512 * 512 + 512 * 3])
    lengths = range(0, len(whole) - (1024 if compression == "plain" else 0), 97)
    for length in [*lengths, len(whole) - (1025 if compression == "plain" else 1)]:
        (tmp_path / "archive").write_bytes(whole[:length])
        with pytest.raises(IntegrityError) as caught:
            extract_archive(tmp_path / "archive", tmp_path / f"out{length}", name="cut.tar")
        assert str(caught.value).startswith("cut.tar")


@pytest.mark.parametrize("compression", ["gzip", "xz", "bzip2"])
def test_a_flipped_bit_in_compressed_data_is_noticed(tmp_path: Path, compression: str) -> None:
    data = bytearray(COMPRESSORS[compression](tar(entry("f", data=os.urandom(4000)))))
    data[len(data) // 2] ^= 1
    (tmp_path / "archive").write_bytes(data)
    with pytest.raises(IntegrityError):
        extract_archive(tmp_path / "archive", tmp_path / "out", name="bad")


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<html>" * 400, os.urandom(2000), b"PK\3\4" + bytes(600), b"\x1f\x8b" + bytes(50)],
)
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "archive").write_bytes(data)
    with pytest.raises(IntegrityError, match="cannot be unpacked"):
        extract_archive(tmp_path / "archive", tmp_path / "out", name="page")


def test_garbage_in_the_middle_is_not_taken_for_the_end(place: Path) -> None:
    data = bytearray(tar(entry("a", data=b"x"), entry("b", data=b"y")))
    data[1024:1536] = os.urandom(512)
    with pytest.raises(IntegrityError, match="cut short"):
        unpack(bytes(data), place)


def test_a_bomb_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(tar(entry("zeros", data=bytes(5_000_000)))))
    assert (tmp_path / "bomb").stat().st_size < 20_000
    with pytest.raises(IntegrityError, match="more than the limit of 1,000,000 bytes"):
        extract_archive(tmp_path / "bomb", tmp_path / "out", name="bomb", limit=1_000_000)
    assert (tmp_path / "out/zeros").stat().st_size <= 1_000_000


def test_a_bomb_of_entries_and_one_of_hard_links(place: Path) -> None:
    with pytest.raises(IntegrityError, match="limit"):
        unpack(tar(*(directory(f"d{number}") for number in range(300))), place, limit=1_000_000)
    links = (hard(f"l{number}", "f") for number in range(20))
    with pytest.raises(IntegrityError, match="limit"):
        unpack(tar(entry("f", data=bytes(100_000)), *links), place, limit=1_000_000)


def test_a_bomb_of_headers(tmp_path: Path, place: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("f")
        info.pax_headers = {"comment": "x" * (2 << 20)}
        archive.addfile(info)
    with pytest.raises(IntegrityError, match="more than a megabyte"):
        unpack(out.getvalue(), place)


def test_what_follows_the_end_is_bounded(tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        def __init__(self) -> None:
            self.start = io.BytesIO(tar(entry("f")))

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            view = memoryview(buffer)  # type: ignore[arg-type]
            return self.start.readinto(view) or len(view)

    with (
        pytest.raises(IntegrityError, match="follows its end"),
        TreeWriter(tmp_path, origin="endless") as writer,
    ):
        unpack_tar(io.BufferedReader(Endless()), writer)


def test_a_negative_size(place: Path) -> None:
    data = bytearray(tar(entry("f", data=b"x" * 600)))
    data[124:136] = b"\xff" * 8 + struct.pack(">i", -512)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(IntegrityError, match="negative size"):
        unpack(bytes(data), place)


def test_sparse_members_of_gnu_tar(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.write(b"begin")
        file.seek(300_000)
        file.write(b"end")
    for form in ("gnu", "pax"):
        subprocess.run(["tar", "-cSf", f"{form}.tar", f"--format={form}", "hole"], cwd=tmp_path, check=True)
        assert (tmp_path / f"{form}.tar").stat().st_size < 100_000
        extract_tar(tmp_path / f"{form}.tar", tmp_path / form)
        assert (tmp_path / form / "hole").read_bytes() == (tmp_path / "hole").read_bytes()
        with pytest.raises(IntegrityError, match="limit"):
            extract_tar(tmp_path / f"{form}.tar", tmp_path / f"{form}2", limit=100_000)


# zip


def zip_of(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return path


REG, LNK = stat.S_IFREG, stat.S_IFLNK


def test_zip(tmp_path: Path) -> None:
    path = zip_of(
        tmp_path / "a.zip",
        ("top/", b"", stat.S_IFDIR | 0o700),
        ("top/run", b"run", REG | 0o4755),
        ("top/é", b"text", REG | 0o600),
        ("top/link", b"run", LNK | 0o777),
    )
    extract_archive(path, tmp_path / "out", name="a.zip", strip=1)
    out = tmp_path / "out"
    assert stat.S_IMODE((out / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((out / "é").stat().st_mode) == 0o644
    assert (out / "link").readlink() == Path("run")
    assert {path.lstat().st_mtime_ns for path in (out, *out.rglob("*"))} == {0}


@pytest.mark.parametrize(
    ("name", "data", "mode", "message"),
    [
        ("../secret", b"x", REG | 0o644, r"'\.\.'"),
        ("/etc/x", b"x", REG | 0o644, "absolute"),
        ("l", b"../secret", LNK | 0o777, "leads out"),
        ("l", b"/etc/passwd", LNK | 0o777, "absolute"),
        ("l", b"", LNK | 0o777, "empty"),
        ("pipe", b"", stat.S_IFIFO | 0o644, "a fifo"),
        ("dev", b"", stat.S_IFCHR | 0o644, "a device"),
    ],
)
def test_hostile_zip(place: Path, name: str, data: bytes, mode: int, message: str) -> None:
    path = zip_of(place / "evil.zip", (name, data, mode))
    with pytest.raises(IntegrityError, match=message):
        extract_zip(path, place / "in/destination")
    assert (place / "in/secret").read_bytes() == b"untouched"


def test_zip_writes_not_through_its_own_links(place: Path) -> None:
    path = zip_of(place / "evil.zip", ("l", b"sub", LNK | 0o777), ("l/x", b"x", REG | 0o644))
    with pytest.raises(IntegrityError, match="through a symbolic link"):
        extract_zip(path, place / "in/destination")


def test_a_zip_bomb_and_a_zip_that_lies_about_its_size(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", ("zeros", bytes(3_000_000), REG | 0o644))
    with pytest.raises(IntegrityError, match="limit"):
        extract_zip(path, tmp_path / "out", limit=1_000_000)
    data = path.read_bytes()
    size = struct.pack("<I", 3_000_000)
    assert data.count(size) == 2
    (tmp_path / "b.zip").write_bytes(data.replace(size, struct.pack("<I", 10)))
    with pytest.raises(IntegrityError):
        extract_zip(tmp_path / "b.zip", tmp_path / "out2", limit=1_000_000)


def test_damaged_zip(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", ("data", os.urandom(3000), REG | 0o644))
    whole = path.read_bytes()
    for damaged in (whole[:-10], whole[:1000], whole[:500] + b"\xff" + whole[501:]):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError):
            extract_zip(path, tmp_path / "out")


def test_encrypted_zip(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", ("data", b"secret", REG | 0o644))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="encrypted"):
        extract_zip(path, tmp_path / "out")
