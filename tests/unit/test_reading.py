from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lockbuild.reading import open_regular, read_regular, read_regular_text


def test_a_regular_file_and_a_link_to_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\r\nb\rc" + bytes(3 << 20))
    (tmp_path / "link").symlink_to(file)
    assert read_regular(tmp_path / "link") == file.read_bytes()
    assert read_regular_text(file)[:6] == "a\nb\nc\0"
    with open_regular(file) as stream:
        assert stream.read(3) == b"a\r\n"


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("fifo", "zero", "socket"):
            with pytest.raises(OSError, match="it is not a regular file") as caught:
                read_regular(tmp_path / name)
            assert caught.value.strerror == "it is not a regular file"
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


def test_no_more_is_read_than_is_sensible(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10))
    assert read_regular(file, 10) == bytes(10)
    with pytest.raises(OSError, match="it has more than 9 bytes"):
        read_regular(file, 9)
    os.truncate(file, 1 << 40)  # a hole
    with pytest.raises(OSError, match="it has more than 67,108,864 bytes"):
        read_regular(file)
