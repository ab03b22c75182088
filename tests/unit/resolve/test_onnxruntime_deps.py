"""ONNX Runtime's deps.txt: what its lines are, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.errors import InvalidFileError, ResolveError
from lockbuild.resolve.onnxruntime import parse

ONE, TWO = "0123456789abcdef0123456789abcdef01234567", "f" * 40
TEXT = f"""\
# Some comment; with; semicolons
abseil_cpp;https://github.com/abseil/abseil-cpp/archive/refs/tags/1.zip;{ONE}

  date;https://github.com/HowardHinnant/date/archive/v3.zip;{TWO.upper()}  \r
date_again;https://github.com/HowardHinnant/date/archive/v3.zip;{TWO}
"""


def test_lines_are_read_and_each_place_is_there_once() -> None:
    one, two = parse(TEXT.encode(), "deps.txt")
    assert (one.name, one.sha1) == ("abseil_cpp", ONE)
    assert one.url == f"https://{one.place}"
    assert one.place == "github.com/abseil/abseil-cpp/archive/refs/tags/1.zip"
    assert (two.name, two.sha1) == ("date", TWO)


@pytest.mark.parametrize(
    "line",
    [
        "no semicolons",
        f"a;https://x.test/a.zip;{ONE[:-1]}",
        f"a;ftp://x.test/a.zip;{ONE}",
        f"a;file:///etc/passwd;{ONE}",
        f"a;https://x.test/../../a.zip;{ONE}",
        f"a;https://x.test//a.zip;{ONE}",
        f"a;https://x.test/a.zip?token=1;{ONE}",
        f"a;https://x.test;{ONE}",
        f";https://x.test/a.zip;{ONE}",
        f"a;https://x.test/a.zip;{ONE};more",
    ],
)
def test_every_line_that_is_none_is_told(line: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parse(f"{TEXT}\n{line}\n".encode(), "deps.txt")
    assert [problem.key for problem in caught.value.problems] == ["line 7"]
    assert caught.value.on == "deps.txt"


def test_one_url_with_two_digests() -> None:
    with pytest.raises(InvalidFileError, match="another SHA-1 than date"):
        parse(f"{TEXT}x;https://github.com/HowardHinnant/date/archive/v3.zip;{ONE}".encode(), "deps.txt")


def test_no_archive_at_all() -> None:
    with pytest.raises(ResolveError, match="names no archive"):
        parse(b"# nothing\n", "deps.txt")


@given(st.text(alphabet="a;/.:https0123456789abcdef\n#", max_size=200))
def test_whatever_is_read_stays_below_the_mirror(text: str) -> None:
    try:
        found = parse(text.encode(), "deps.txt")
    except (InvalidFileError, ResolveError):
        return
    for item in found:
        assert not {"", ".", ".."} & set(item.place.split("/"))
        assert item.url.endswith(f"://{item.place}")
