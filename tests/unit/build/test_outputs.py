"""Choosing outputs and putting them in place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lockbuild.build.outputs import CHECKSUMS, OutputPatterns, check_destination, collect, measure, publish
from lockbuild.errors import BuildError, UsageError


@pytest.mark.parametrize(
    ("pattern", "chosen", "left"),
    [
        ("hello.js", ["hello.js"], ["sub/hello.js", "hello.jsx"]),
        ("*.wasm", ["a.wasm"], ["sub/a.wasm"]),
        ("lib/**/*.a", ["lib/x.a", "lib/a/b/x.a"], ["x.a"]),
        ("lib", ["lib/x.a", "lib/a/b"], ["mylib/x.a", "src/lib/x"]),
        ("out/[ab].js", ["out/a.js"], ["out/c.js"]),
    ],
)
def test_patterns_are_anchored_and_take_wildcards(pattern: str, chosen: list[str], left: list[str]) -> None:
    patterns = OutputPatterns([pattern])
    assert [path for path in chosen + left if patterns(path)] == chosen
    assert patterns.unmatched == []


def test_a_missing_output_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="made no b.wasm, \\*.map"):
        collect(lambda into, select: None if select("a.js") else None, ["a.js", "b.wasm", "*.map"], tmp_path)


def staged(directory: Path, **files: str) -> Path:
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def test_outputs_land_with_checksums_that_sha256sum_reads(tmp_path: Path) -> None:
    outputs = staged(tmp_path / "staged", a="1", b="2")
    destination = tmp_path / "new" / "dist"
    publish(outputs, measure(outputs), destination)
    assert sorted(path.name for path in destination.iterdir()) == [CHECKSUMS, "a", "b"]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", CHECKSUMS], cwd=destination, check=True)


def test_a_second_build_replaces_the_first_whole(tmp_path: Path) -> None:
    destination = tmp_path / "dist"
    first = staged(tmp_path / "first", a="1", gone="x")
    publish(first, measure(first), destination)
    check_destination(destination)
    second = staged(tmp_path / "second", a="2")
    publish(second, measure(second), destination)
    assert (destination / "a").read_text() == "2"
    assert not (destination / "gone").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["mine.txt", "sub/mine.txt"])
def test_files_of_others_are_never_replaced(tmp_path: Path, name: str) -> None:
    destination = tmp_path / "dist"
    outputs = staged(tmp_path / "staged", a="1")
    publish(outputs, measure(outputs), destination)
    (destination / name).parent.mkdir(exist_ok=True)
    (destination / name).write_text("precious")
    with pytest.raises(UsageError, match="mine.txt"):
        check_destination(destination)
    with pytest.raises(UsageError, match="mine.txt"):
        publish(outputs, measure(outputs), destination)
    assert (destination / name).read_text() == "precious"


def test_a_link_or_a_file_is_no_destination(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(UsageError, match="not a directory"):
            check_destination(tmp_path / name)


def test_an_empty_directory_is_one(tmp_path: Path) -> None:
    check_destination(tmp_path)
    check_destination(tmp_path / "absent")


def test_measuring_leaves_out_links_and_the_checksums(tmp_path: Path) -> None:
    outputs = staged(tmp_path / "staged", a="1", SHA256SUMS="x")
    os.symlink("a", outputs / "link")
    assert [file.path for file in measure(outputs)] == ["a"]
