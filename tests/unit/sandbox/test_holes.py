"""Files are copied byte by byte as they read, and hole by hole as they lie."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.sandbox import holes


def copied(source: Path, target: Path) -> None:
    with source.open("rb") as stream, target.open("wb") as out:
        holes.copy(stream.fileno(), out.fileno())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(max_size=100)), max_size=6), st.integers(0, 1 << 20)
)
def test_the_copy_reads_the_same(tmp_path: Path, pieces: list[tuple[int, bytes]], size: int) -> None:
    with (tmp_path / "source").open("wb") as file:
        for at, data in pieces:
            file.seek(at)
            file.write(data)
        file.truncate(size)
    copied(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_hole_costs_nothing(tmp_path: Path) -> None:
    with (tmp_path / "source").open("wb") as file:
        file.seek(5 << 30)
        file.write(b"end")
        file.truncate(6 << 30)
    copied(tmp_path / "source", tmp_path / "target")
    status = (tmp_path / "target").stat()
    assert status.st_size == 6 << 30
    assert status.st_blocks * 512 < 1 << 20
    with (tmp_path / "target").open("rb") as file:
        file.seek(5 << 30)
        assert file.read(4) == b"end\0"
