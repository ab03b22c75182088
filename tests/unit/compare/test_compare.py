"""Comparing outputs: verdicts, the first difference, hints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.compare.hints import sandbox_paths
from lockbuild.compare.outputs import compare, first_difference
from lockbuild.model.digest import Digest
from lockbuild.model.outcome import BuiltFile, Verdict


def built(path: str, data: bytes) -> BuiltFile:
    return BuiltFile(path, len(data), Digest.of(data))


def test_each_file_gets_its_verdict(tmp_path: Path) -> None:
    (tmp_path / "changed").write_bytes(b"new")
    comparison = compare(
        "t",
        [built("same", b"s"), built("changed", b"old"), built("gone", b"g")],
        [built("same", b"s"), built("changed", b"new"), built("extra", b"e")],
        recorded_bytes=lambda digest: None,
        found_directory=tmp_path,
    )
    assert {file.path: file.verdict for file in comparison.files} == {
        "changed": Verdict.DIFFERENT,
        "extra": Verdict.UNEXPECTED,
        "gone": Verdict.MISSING,
        "same": Verdict.SAME,
    }
    assert not comparison.same


def test_the_same_files_are_the_same(tmp_path: Path) -> None:
    files = [built("a", b"1"), built("b", b"2")]
    comparison = compare("t", files, files[::-1], recorded_bytes=lambda _: None, found_directory=tmp_path)
    assert comparison.same


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=50), st.binary(max_size=50))
def test_the_first_difference_is_where_a_person_finds_it(tmp_path: Path, left: bytes, right: bytes) -> None:
    (tmp_path / "l").write_bytes(left)
    (tmp_path / "r").write_bytes(right)
    offset = first_difference(tmp_path / "l", tmp_path / "r")
    if left == right:
        assert offset is None
    else:
        assert offset is not None
        assert left[:offset] == right[:offset]
        assert left[offset : offset + 1] != right[offset : offset + 1]


def test_the_first_difference_lies_beyond_the_first_chunk(tmp_path: Path) -> None:
    same = b"x" * (3 << 20)
    (tmp_path / "l").write_bytes(same + b"a")
    (tmp_path / "r").write_bytes(same + b"b")
    assert first_difference(tmp_path / "l", tmp_path / "r") == 3 << 20


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"at x.cpp", b"at /home/me/x.cpp", "embedded path: /home/me/x.cpp"),
        (b"made", b"made Nov 30 2026", "date or time: Nov 30 2026"),
        (b"made", b"made 12:30:01", "date or time: 12:30:01"),
        (b"made", b"made now", "size: 4 -> 8 bytes (+4)"),
    ],
)
def test_a_hint_tells_what_is_new(tmp_path: Path, old: bytes, new: bytes, told: str) -> None:
    original = tmp_path / "original"
    original.write_bytes(old)
    (tmp_path / "f").write_bytes(new)
    comparison = compare(
        "t", [built("f", old)], [built("f", new)], recorded_bytes=lambda _: original, found_directory=tmp_path
    )
    assert told in comparison.files[0].hints


def test_what_was_there_before_is_no_hint(tmp_path: Path) -> None:
    old, new = b"/home/me/x.cpp 1", b"/home/me/x.cpp 2"
    original = tmp_path / "original"
    original.write_bytes(old)
    (tmp_path / "f").write_bytes(new)
    comparison = compare(
        "t", [built("f", old)], [built("f", new)], recorded_bytes=lambda _: original, found_directory=tmp_path
    )
    assert comparison.files[0].hints == ()
    assert comparison.files[0].first_difference == 15


def test_paths_of_the_sandbox_are_found(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\0/build/source/a.c\0/build/source/a.c\0/opt/cmake/bin\0/buildings\0/optimal/x\0")
    assert sandbox_paths(file) == ["/build/source/a.c", "/opt/cmake/bin"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.integers(0, 3 << 12), st.integers(1, 200))
def test_a_path_is_found_wherever_windows_end(tmp_path: Path, before: int, length: int) -> None:
    path = b"/build/source/" + b"a" * length
    (tmp_path / "f").write_bytes(b"\0" * before + path + b"\0" * 5000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lockbuild.compare.hints._WINDOW", 1 << 12)
        assert sandbox_paths(tmp_path / "f") == [path.decode()]


def test_a_file_larger_than_memory_should_hold_is_looked_through(tmp_path: Path) -> None:
    import tracemalloc

    with (tmp_path / "f").open("wb") as file:
        file.truncate(100 << 20)
        file.seek(100 << 20)
        file.write(b"/opt/tool/x\0")
    tracemalloc.start()
    assert sandbox_paths(tmp_path / "f") == ["/opt/tool/x"]
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
