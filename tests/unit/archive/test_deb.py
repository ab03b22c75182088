from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from lockbuild.archive.deb import control_fields, control_files, open_data
from lockbuild.errors import IntegrityError
from tests.support.debs import ar, directory, file, tar, write_deb


def read_data(deb: Path) -> bytes:
    with open_data(deb) as stream:
        return stream.read()


def read_members(deb: Path) -> None:
    with open_data(deb) as stream, tarfile.open(fileobj=stream, mode="r|") as data:
        for member in data:
            content = data.extractfile(member)
            assert content is not None
            content.read()


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".bz2", ".lzma", ".zst"])
def test_every_compression_that_deb_5_names_is_read(tmp_path: Path, compression: str) -> None:
    content = [directory("./"), file("./a", b"x" * 3_000_000), file("./b", "odd")]
    deb = write_deb(tmp_path / "p.deb", content, compression=compression, scripts={"postinst": "exit 0\n"})
    assert read_data(deb) == tar(content)
    assert control_files(deb)["postinst"] == b"exit 0\n"


@pytest.mark.parametrize("compression", ["none", "gzip", "xz", "zstd"])
def test_a_package_of_dpkg_deb_is_read_as_dpkg_deb_reads_it(tmp_path: Path, compression: str) -> None:
    source = tmp_path / "source"
    (source / "DEBIAN").mkdir(parents=True)
    source.chmod(0o755)
    (source / "DEBIAN").chmod(0o755)
    (source / "DEBIAN/control").write_text(
        "Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.test>\nDescription: x\n y\n"
    )
    (source / "hello").write_text("hello\n" * 1000)
    deb = tmp_path / "hello.deb"
    subprocess.run(
        ["dpkg-deb", f"-Z{compression}", "--root-owner-group", "-b", source, deb],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    expected = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
    assert read_data(deb) == expected
    fields = control_fields(control_files(deb)["control"])
    assert (fields["package"], fields["description"]) == ("hello", "x\ny")


def test_several_xz_streams_and_their_padding_are_one(tmp_path: Path) -> None:
    import lzma

    data = tar([file("./a", b"a" * 5000)])
    half = len(data) // 2
    stream = lzma.compress(data[:half]) + b"\0" * 8 + lzma.compress(data[half:])
    deb = tmp_path / "p.deb"
    deb.write_bytes(ar([("debian-binary", b"2.0\n"), ("data.tar.xz", stream)]))
    assert read_data(deb) == data


def test_names_with_the_slash_of_gnu_ar_are_read(tmp_path: Path) -> None:
    deb = tmp_path / "p.deb"
    deb.write_bytes(ar([("debian-binary/", b"2.0\n"), ("_extra/", b"odd"), ("data.tar/", b"data")]))
    assert read_data(deb) == b"data"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no ar archive"),
        (b"PK\3\4 something else", "no ar archive"),
        (b"!<arch>\n", "it has no data.tar"),
        (b"!<arch>\nshort", "a damaged ar header"),
        (ar([("debian-binary", b"3.0\n"), ("data.tar", b"")]), "its format is not 2.x"),
        (ar([("data.tar", b"")]), "its format is not 2.x"),
        (ar([("debian-binary", b"2.0\n"), ("control.tar", b"")]), "it has no data.tar"),
        (ar([("debian-binary", b"2.0\n"), ("data.tar.lz4", b"")]), "unknown compression"),
        (ar([("debian-binary", b"2.0\n"), ("data.tar.xz", b"no xz")]), "data.tar.xz"),
        (ar([("debian-binary", b"2.0\n"), ("data.tar.gz", b"no gzip")]), "data.tar.gz"),
        (ar([("debian-binary", b"2.0\n"), ("data.tar.bz2", b"no bzip2")]), "data.tar.bz2"),
        (ar([("debian-binary", b"2.0\n"), ("data.tar.zst", b"no zstd")]), "data.tar.zst"),
    ],
)
def test_what_is_no_package_is_an_integrity_error_that_names_the_file(
    tmp_path: Path, content: bytes, what: str
) -> None:
    deb = tmp_path / "wrong.deb"
    deb.write_bytes(content)
    with pytest.raises(IntegrityError, match=what) as error:
        read_data(deb)
    assert error.value.on == str(deb)


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_a_cut_package_is_an_integrity_error(tmp_path: Path, compression: str) -> None:
    import os

    deb = write_deb(tmp_path / "p.deb", [file("./a", os.urandom(200_000))], compression=compression)
    deb.write_bytes(deb.read_bytes()[:-50_000])
    with pytest.raises(IntegrityError):
        read_members(deb)


def test_a_bomb_for_the_decompressor_is_refused(tmp_path: Path) -> None:
    import lzma

    # a header that asks for a dictionary of 1.5 GiB
    data = lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}])
    block = bytearray(data)
    # stream header (12 bytes), block header: size, flags, filter id 0x21, size of properties 1, dictionary
    assert block[14:16] == b"\x21\x01"
    block[16] = 40
    import zlib

    size = (block[12] + 1) * 4
    block[12 + size - 4 : 12 + size] = zlib.crc32(block[12 : 12 + size - 4]).to_bytes(4, "little")
    deb = tmp_path / "p.deb"
    deb.write_bytes(ar([("debian-binary", b"2.0\n"), ("data.tar.xz", bytes(block))]))
    with pytest.raises(IntegrityError, match=r"[Mm]emory"):
        read_data(deb)


def test_a_package_without_control_file_is_an_integrity_error(tmp_path: Path) -> None:
    deb = tmp_path / "p.deb"
    deb.write_bytes(ar([("debian-binary", b"2.0\n"), ("control.tar", tar([file("./postinst")]))]))
    with pytest.raises(IntegrityError, match="no control file"):
        control_files(deb)


def test_control_fields_end_with_the_first_paragraph() -> None:
    text = b"Package: a\nDescription: one\n two\n .\nReplaces: b (<< 1), c\n\nPackage: other\n"
    assert control_fields(text) == {
        "package": "a",
        "description": "one\ntwo\n.",
        "replaces": "b (<< 1), c",
    }
