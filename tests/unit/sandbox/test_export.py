"""Bringing files out of an engine's tar stream that is hostile, and out of directories."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lockbuild.errors import BuildError, IntegrityError, SandboxError
from lockbuild.sandbox.export import Exported, export_directory, export_tar


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def stream(*members: tuple[tarfile.TarInfo, bytes]) -> Iterable[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = buffer.getvalue()
    # Odd pieces, an empty one among them: engines send what they like.
    return [data[:1], b"", data[1:700], *(data[at : at + 333] for at in range(700, len(data), 333))]


def nothing(relative: str) -> Iterable[bytes]:
    raise AssertionError(f"{relative} was asked for again")


def export(
    destination: Path,
    *members: tuple[tarfile.TarInfo, bytes],
    select: Callable[[str], bool] | None = None,
    again: Callable[[str], Iterable[bytes]] = nothing,
) -> list[str]:
    export_tar(stream(*members), Exported(destination, select), again)
    return sorted(path.relative_to(destination).as_posix() for path in destination.rglob("*"))


def test_files_links_and_empty_directories(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = export(
        out,
        (member("build/", tarfile.DIRTYPE), b""),
        (member("build/a", mode=0o6751), b"content" * 1000),
        (member("build/d/", tarfile.DIRTYPE, mode=0), b""),
        (member("build/l", tarfile.SYMTYPE, "a"), b""),
        (member("build/h", tarfile.LNKTYPE, "build/a"), b""),
        (member("build/fifo", tarfile.FIFOTYPE), b""),
        (member("build/null", tarfile.CHRTYPE), b""),
    )
    assert names == ["a", "d", "h", "l"]
    assert (out / "h").read_bytes() == (out / "a").read_bytes() == b"content" * 1000
    assert stat.S_IMODE((out / "a").stat().st_mode) == 0o755
    assert (out / "a").stat().st_nlink == 1


def test_a_hard_link_to_what_was_not_selected_is_asked_for_again(tmp_path: Path) -> None:
    names = export(
        tmp_path / "out",
        (member("build/a.o"), b"data"),
        (member("build/b.js", tarfile.LNKTYPE, "build/a.o"), b""),
        select=lambda path: path.endswith(".js"),
        again=lambda relative: stream((member(relative, mode=0o755), b"data")),
    )
    assert names == ["b.js"]
    assert (tmp_path / "out/b.js").read_bytes() == b"data"


@pytest.mark.parametrize("name", ["build/../../escaped", "build//etc/passwd", "build/a/../../b"])
def test_names_that_climb(tmp_path: Path, name: str) -> None:
    with pytest.raises(IntegrityError, match="leaves its directory"):
        export(tmp_path / "out", (member(name), b"x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(FileExistsError):
        export(
            tmp_path / "out",
            (member("build/l", tarfile.SYMTYPE, str(outside)), b""),
            (member("build/l/file"), b"x"),
        )
    assert list(outside.iterdir()) == []


def test_a_hard_link_to_a_file_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="leaves its directory"):
        export(tmp_path / "out", (member("build/h", tarfile.LNKTYPE, "build/../../../etc/passwd"), b""))


def test_a_truncated_stream(tmp_path: Path) -> None:
    pieces = list(stream((member("build/a"), b"x" * 100_000)))
    with pytest.raises(SandboxError, match="broke off"):
        export_tar(pieces[: len(pieces) // 2], Exported(tmp_path / "out", None), nothing)


def test_a_directory_of_the_host(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d/e").mkdir(parents=True)
    (source / "d/f").write_text("x")
    (source / "l").symlink_to("/etc/passwd")
    export_directory(source, Exported(tmp_path / "all", None))
    export_directory(source, Exported(tmp_path / "some", lambda path: path.startswith("d")))
    assert sorted(p.relative_to(tmp_path / "all").as_posix() for p in (tmp_path / "all").rglob("*")) == [
        *("d", "d/e", "d/f", "l")
    ]
    assert sorted(p.relative_to(tmp_path / "some").as_posix() for p in (tmp_path / "some").rglob("*")) == [
        *("d", "d/f")
    ]


def test_what_is_selected_and_no_file_is_refused_from_a_directory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("x")
    (source / "l").symlink_to("f")
    os.mkfifo(source / "p")
    with pytest.raises(BuildError) as caught:
        export_directory(source, Exported(tmp_path / "out", lambda path: True))
    assert "l (a symbolic link to f), p (a fifo, socket or device)" in str(caught.value)


def test_what_is_selected_and_no_file_is_refused_from_an_engine(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        export(
            tmp_path / "out",
            (member("build/f"), b"x"),
            (member("build/l", tarfile.SYMTYPE, "f"), b""),
            (member("build/p", tarfile.FIFOTYPE), b""),
            select=lambda path: True,
        )
    assert "l (a symbolic link to f), p (a fifo, socket or device)" in str(caught.value)
