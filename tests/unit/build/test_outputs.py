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
        ("**/*.wasm", ["a.wasm", "x/y/a.wasm", "d.wasm/f"], ["a.wasmx"]),
        ("**/bin/", ["bin/a", "x/bin/y/z"], ["bin", "x/bin", "cabin/a"]),
        ("*/a?", ["d/ab", "d/ax/y"], ["ab", "d/a", "d/e/ab", "d/a\u00e9"]),
        ("a*", ["a", "ab/c"], ["b/a"]),
        ("[[:upper:]]", ["A"], ["a"]),
        ("a ", ["a "], ["a"]),
        ("!a", ["!a"], ["a", "b"]),
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


def test_an_empty_directory_is_one(tmp_path: Path) -> None:
    check_destination(tmp_path)
    check_destination(tmp_path / "absent")


def test_measuring_leaves_out_links_and_the_checksums(tmp_path: Path) -> None:
    outputs = staged(tmp_path / "staged", a="1", SHA256SUMS="x")
    os.symlink("a", outputs / "link")
    assert [file.path for file in measure(outputs)] == ["a"]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a[1].txt", "a[1].txt"),
        (r"a\[1\].txt", "a[1].txt"),
        ("./a", "a"),
        ("./d/", "d/a"),
        (".", "d/a"),
        ("#a", "#a"),
    ],
)
def test_a_pattern_says_what_a_person_means(pattern: str, path: str) -> None:
    assert OutputPatterns([pattern])(path)


def test_names_that_a_list_of_checksums_must_escape(tmp_path: Path) -> None:
    names = [
        "a b",
        "new\nline",
        "back\\slash",
        "both\\\n\\n",
        "return\r",
        "-dash",
        "[a]*?",
        "üñí",
        " lead",
        "u2028\u2028x",
    ]
    outputs = tmp_path / "staged"
    outputs.mkdir()
    for name in names:
        (outputs / name).write_text(name)
    publish(outputs, measure(outputs), tmp_path / "dist")
    assert sorted(os.listdir(tmp_path / "dist")) == sorted([CHECKSUMS, *names])
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", CHECKSUMS], cwd=tmp_path / "dist", check=True
    )
    check_destination(tmp_path / "dist")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (CHECKSUMS, "an output must not be called SHA256SUMS"),
        (os.fsdecode(b"a\xff"), r"the name of an output is not UTF-8: 'a\udcff'"),
    ],
)
def test_names_that_cannot_be_outputs(tmp_path: Path, name: str, told: str) -> None:
    def export(into: Path, select: object) -> None:
        (into / name).touch()

    with pytest.raises(BuildError) as caught:
        collect(export, [], tmp_path)
    assert told in str(caught.value)


def test_what_stands_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "file").touch()
    for place, told in (
        ("link", "is a symbolic link"),
        ("file", "not a directory"),
        ("file/x/y", "not a dir"),
    ):
        with pytest.raises(UsageError, match=told) as caught:
            check_destination(tmp_path / place)
        assert "-o DIR" in (caught.value.hint or "")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/link").symlink_to("/etc")
    with pytest.raises(UsageError, match="did not put there: link"):
        check_destination(tmp_path / "dist")


def test_outputs_reach_another_file_system(tmp_path: Path) -> None:
    other = Path("/dev/shm") / f"lockbuild-test-{os.getpid()}"
    if other.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("one file system only")
    outputs = staged(tmp_path / "staged", a="1")
    (outputs / "a").chmod(0o755)
    try:
        publish(outputs, measure(outputs), other)
        assert (other / "a").read_text() == "1"
        assert (other / "a").stat().st_mode & 0o777 == 0o755
    finally:
        subprocess.run(["rm", "-rf", str(other)], check=True)


def test_outputs_can_be_hidden_from_git_and_are_still_ours(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    destination = tmp_path / "out"
    for content in ("1", "2"):
        outputs = staged(tmp_path / content, a=content)
        publish(outputs, measure(outputs), destination, ignored=True)
        check_destination(destination)
        (tmp_path / content).rmdir()
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout == b""
    (destination / ".gitignore").write_text("*.o\n")
    with pytest.raises(UsageError, match="did not put there: .gitignore"):
        check_destination(destination)


def test_an_output_cannot_take_the_place_of_the_rules(tmp_path: Path) -> None:
    outputs = staged(tmp_path / "staged", **{".gitignore": "!*"})
    with pytest.raises(UsageError, match="an output is called .gitignore"):
        publish(outputs, measure(outputs), tmp_path / "out", ignored=True)
    publish(outputs, measure(outputs), tmp_path / "out")
    check_destination(tmp_path / "out")


def test_a_list_of_somebody_elses_files_gives_nothing_away(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / "thesis").write_text("years")
    listed = subprocess.run(["sha256sum", "thesis"], cwd=release, check=True, capture_output=True).stdout
    (release / CHECKSUMS).write_bytes(listed)
    with pytest.raises(UsageError, match="lockbuild did not put there: SHA256SUMS, thesis"):
        check_destination(release)
    assert (release / "thesis").read_text() == "years"


def test_outputs_of_several_targets_give_way_to_those_of_one(tmp_path: Path) -> None:
    for target in ("a", "b"):
        outputs = staged(tmp_path / target, x=target)
        publish(outputs, measure(outputs), tmp_path / "dist" / target)
    outputs = staged(tmp_path / "one", y="1")
    publish(outputs, measure(outputs), tmp_path / "dist")
    assert sorted(os.listdir(tmp_path / "dist")) == [CHECKSUMS, "y"]
    (tmp_path / "dist" / "mine").mkdir()
    (tmp_path / "dist" / "mine" / CHECKSUMS).write_text(f"{'0' * 64}  x\n")
    with pytest.raises(UsageError, match="mine/SHA256SUMS"):
        check_destination(tmp_path / "dist")
