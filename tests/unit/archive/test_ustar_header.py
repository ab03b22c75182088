"""The bytes of the canonical tar's headers, against what POSIX says and what other readers make of them."""

from __future__ import annotations

import io
import tarfile

import pytest

from lockbuild.archive import ustar


def read_back(header: bytes) -> tarfile.TarInfo:
    """What Python's tarfile reads: the entry of a header, its data left out."""
    with tarfile.open(fileobj=io.BytesIO(header + ustar.END), errors="surrogateescape") as archive:
        member = archive.firstmember  # type: ignore[attr-defined]
    assert isinstance(member, tarfile.TarInfo)
    return member


def test_every_byte_of_a_plain_file_header() -> None:
    header = ustar.file_header(b"bin/tool", 1234, executable=True)
    assert len(header) == 512
    assert header[0:100] == b"bin/tool".ljust(100, b"\0")
    assert header[100:108] == b"0000755\0"
    assert header[108:124] == b"0000000\0" * 2
    assert header[124:136] == b"00000002322\0"
    assert header[136:148] == b"00000000000\0"
    assert header[148:156] == b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * 32)
    assert header[156:157] == b"0"
    assert header[157:257] == bytes(100)
    assert header[257:265] == b"ustar\x0000"
    assert header[265:329] == bytes(64), "no user or group name"
    assert header[329:345] == b"0000000\0" * 2, "device fields as GNU tar writes them"
    assert header[345:512] == bytes(167)


def test_mode_of_a_file_without_x() -> None:
    assert ustar.file_header(b"a", 0, executable=False)[100:108] == b"0000644\0"


def test_a_name_of_exactly_100_bytes_needs_no_pax_header() -> None:
    name = b"d/" + b"n" * 98
    header = ustar.file_header(name, 0, executable=False)
    assert len(header) == 512
    assert header[:100] == name
    assert read_back(header).name == name.decode()


@pytest.mark.parametrize("name", [b"n" * 101, b"d" * 90 + b"/" + b"n" * 160, "é".encode() * 51])
def test_a_longer_name_has_one(name: bytes) -> None:
    header = ustar.file_header(name, 7, executable=False)
    assert len(header) == 3 * 512
    assert header[156:157] == b"x"
    assert read_back(header).name == name.decode()
    assert read_back(header).size == 7


def test_a_directory_of_100_bytes_has_one_because_of_its_slash() -> None:
    assert len(ustar.directory_header(b"d" * 99)) == 512
    header = ustar.directory_header(b"d" * 100)
    assert len(header) == 3 * 512
    assert read_back(header).name == "d" * 100
    assert read_back(header).isdir()


def test_a_link_target_of_101_bytes_has_one() -> None:
    assert len(ustar.symlink_header(b"l", b"t" * 100)) == 512
    member = read_back(ustar.symlink_header(b"l", b"t" * 101))
    assert (member.name, member.linkname, member.mode) == ("l", "t" * 101, 0o777)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xff" * 120, b"new\nline"])
def test_names_that_are_no_utf_8(name: bytes) -> None:
    member = read_back(ustar.file_header(name, 0, executable=False))
    assert member.name.encode("utf-8", "surrogateescape") == name


def test_eleven_octal_digits_hold_8_gib_less_one() -> None:
    header = ustar.file_header(b"a", 8 * 2**30 - 1, executable=False)
    assert len(header) == 512
    assert header[124:136] == b"77777777777\0"


@pytest.mark.parametrize("size", [8 * 2**30, 2**40 + 1])
def test_a_greater_size_has_a_pax_header(size: int) -> None:
    header = ustar.file_header(b"a", size, executable=False)
    assert len(header) == 3 * 512
    assert b" size=%d\n" % size in header
    assert read_back(header).size == size


@pytest.mark.parametrize("length", [1, 85, 86, 87, 88, 89, 90, 91, 92, 93, 985, 986, 987, 988, 989, 990, 991])
def test_a_pax_record_counts_its_own_digits(length: int) -> None:
    record = ustar.pax_record(b"path", b"p" * length)
    assert int(record.split(b" ", 1)[0]) == len(record)


@pytest.mark.parametrize(("size", "pad"), [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)])
def test_padding(size: int, pad: int) -> None:
    assert ustar.padding(size) == pad
