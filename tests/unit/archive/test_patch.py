"""Patches are applied exactly or not at all, and never outside the tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lockbuild.archive.patch import apply_patch
from lockbuild.archive.unidiff import parse_patch
from lockbuild.errors import InvalidFileError, ResolveError

NUMBERS = "".join(f"{number}\n" for number in range(1, 21))


def tree(directory: Path, files: dict[str, str]) -> Path:
    root = directory / "tree"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    root.mkdir(exist_ok=True)
    return root


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def patched(directory: Path, files: dict[str, str], patch: str) -> dict[str, str]:
    root = tree(directory, files)
    apply_patch(patch.encode(), root, name="fix.patch")
    return contents(root)


def header(name: str = "f") -> str:
    return f"--- a/{name}\n+++ b/{name}\n"


MIDDLE = "@@ -9,3 +9,3 @@ anything\n 9\n-10\n+ten\n 11\n"


def test_a_hunk(tmp_path: Path) -> None:
    assert patched(tmp_path, {"f": NUMBERS}, header() + MIDDLE) == {"f": NUMBERS.replace("10\n", "ten\n")}


def test_prose_around_it(tmp_path: Path) -> None:
    mail = f"From: me\n\n--- a line of prose\nIndex: f\n====\ndiff -ur a/f b/f\n{header()}{MIDDLE}-- \n2.47.3\n\n"
    assert patched(tmp_path, {"f": NUMBERS}, mail) == {"f": NUMBERS.replace("10\n", "ten\n")}


def test_lines_that_have_moved(tmp_path: Path) -> None:
    two = header() + MIDDLE + "@@ -14,3 +14,4 @@\n 14\n 15\n+and a half\n 16\n"
    moved = "0\n" * 7 + NUMBERS
    expected = moved.replace("10\n", "ten\n").replace("15\n", "15\nand a half\n")
    assert patched(tmp_path, {"f": moved}, two) == {"f": expected}


def test_the_nearest_of_several_places_of_two_the_later(tmp_path: Path) -> None:
    block = "a\nb\nc\n"
    patch = header() + "@@ -{line},3 +{line},3 @@\n a\n-b\n+B\n c\n"
    files = {"f": block + "x\n" * 4 + block + "x\n" * 4 + block}
    near_first = patched(tmp_path, files, patch.format(line=4))["f"]
    assert near_first == files["f"].replace("b", "B", 1)
    between = patched(tmp_path, files, patch.format(line=12))[
        "f"
    ]  # 4 lines from the second, 3 from the third
    assert between == block + "x\n" * 4 + block + "x\n" * 4 + "a\nB\nc\n"
    as_near = patched(tmp_path, {"f": block + "xy\n" + block}, patch.format(line=3))["f"]
    assert as_near == block + "xy\na\nB\nc\n"


def test_no_fuzz(tmp_path: Path) -> None:
    with pytest.raises(ResolveError) as caught:
        patched(tmp_path, {"f": NUMBERS.replace("11\n", "eleven\n")}, header() + MIDDLE)
    assert str(caught.value) == (
        "fix.patch: f: the patch does not fit: hunk 1 (line 3 of the patch) fits nowhere; at line 11 it wants '11', "
        "but there is 'eleven'\nhint: make the patch anew against this version, or leave it out if upstream has "
        "the change"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NUMBERS.replace("10\n", "ten\n"), "hunk 1 (line 3 of the patch) is applied already at line 9"),
        (NUMBERS.replace("\n", "\r\n"), "other line ends"),
        ("1\n", "at line 9 it wants '9', but the file ends"),
    ],
)
def test_why_it_does_not_fit(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ResolveError) as caught:
        patched(tmp_path, {"f": text}, header() + MIDDLE)
    assert said in str(caught.value)


def test_hunks_in_disorder(tmp_path: Path) -> None:
    with pytest.raises(ResolveError, match="hunk 2"):
        patched(tmp_path, {"f": NUMBERS}, header() + MIDDLE + "@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n")


def test_a_hunk_without_context_stands_where_it_says(tmp_path: Path) -> None:
    patch = header() + "@@ -10 +10 @@\n-10\n+ten\n"
    assert patched(tmp_path, {"f": NUMBERS}, patch)["f"] == NUMBERS.replace("10\n", "ten\n")
    with pytest.raises(ResolveError, match="fits nowhere"):
        patched(tmp_path, {"f": "0\n" + NUMBERS}, patch)
    inserted = header() + "@@ -3,0 +4,1 @@\n+x\n"
    assert patched(tmp_path, {"f": NUMBERS}, inserted)["f"].startswith("1\n2\n3\nx\n4\n")


def test_the_edges_of_a_file_stay_edges(tmp_path: Path) -> None:
    first = header() + "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n"
    assert patched(tmp_path, {"f": NUMBERS}, first)["f"] == "0\n" + NUMBERS
    with pytest.raises(ResolveError):
        patched(tmp_path, {"f": "x\n" + NUMBERS}, first)
    last = header() + "@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n"
    assert patched(tmp_path, {"f": "x\n" + NUMBERS}, last)["f"] == "x\n" + NUMBERS + "21\n"
    with pytest.raises(ResolveError):
        patched(tmp_path, {"f": "x\n" + NUMBERS + "y\n"}, last)


def test_files_without_a_last_line_end(tmp_path: Path) -> None:
    marker = "\\ No newline at end of file\n"
    patch = f"{header()}@@ -1,2 +1,2 @@\n a\n-b\n{marker}+c\n"
    assert patched(tmp_path, {"f": "a\nb"}, patch) == {"f": "a\nc\n"}
    patch = f"{header()}@@ -1,2 +1,2 @@\n a\n-b\n+b\n{marker}"
    assert patched(tmp_path, {"f": "a\nb\n"}, patch) == {"f": "a\nb"}
    with pytest.raises(ResolveError, match="ends the file in its middle"):
        patched(tmp_path, {"f": "a\nb\nc\n"}, patch)


def test_blanks_that_a_mail_program_dropped(tmp_path: Path) -> None:
    patch = header() + "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"
    assert patched(tmp_path, {"f": "a\n\nb\n"}, patch) == {"f": "a\n\nc\n"}


def test_files_made_and_removed(tmp_path: Path) -> None:
    patch = (
        "--- /dev/null\n+++ b/new/deep/f\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "--- a/old/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "--- a/gone\t2020-01-01 10:00:00.000000000 +0100\n+++ b/gone\t1970-01-01 01:00:00.000000000 +0100\n"
        "@@ -1 +0,0 @@\n-z\n"
        "--- a/came\t1969-12-31 19:00:00.000000000 -0500\n+++ b/came\t2020-01-01 10:00:00.000000000 +0100\n"
        "@@ -0,0 +1 @@\n+q\n"
    )
    root = tree(tmp_path, {"old/f": "x\n", "gone": "z\n", "kept/f": ""})
    apply_patch(patch.encode(), root, name="p")
    assert contents(root) == {"new/deep/f": "x\ny\n", "came": "q\n", "kept/f": ""}
    assert not (root / "old").exists()
    assert (root / "new/deep").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("files", "patch", "said"),
    [
        ({}, header() + MIDDLE, "there is no file f"),
        ({"f": ""}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "is to be made, but is there already"),
        ({"f": "x\ny\n"}, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "more in it than the patch knows"),
        ({"f/g": ""}, header() + MIDDLE, "f is a directory"),
        ({"f": ""}, header("f/g") + MIDDLE, "f on the way there is a file"),
    ],
)
def test_trees_that_are_not_as_expected(tmp_path: Path, files: dict[str, str], patch: str, said: str) -> None:
    with pytest.raises(ResolveError) as caught:
        patched(tmp_path, files, patch)
    assert said in str(caught.value)


def test_what_git_says_beside_lines(tmp_path: Path) -> None:
    patch = (
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\nindex 0000000..e69de29\n"
        "diff --git a/from b/to/there\nsimilarity index 80%\nrename from from\nrename to to/there\n"
        "index 111..222 100644\n--- a/from\n+++ b/to/there\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        "diff --git a/one b/two\nsimilarity index 100%\ncopy from one\ncopy to two\n"
        "diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n"
        'diff --git "a/\\303\\274\\t\\"" "b/\\303\\274\\t\\""\nindex 111..222 100644\n'
        '--- "a/\\303\\274\\t\\""\n+++ "b/\\303\\274\\t\\""\n@@ -1 +1 @@\n-x\n+y\n'
    )
    root = tree(tmp_path, {"run": "", "from": "a\nb\n", "one": "1", "empty": "", 'ü\t"': "x\n"})
    apply_patch(patch.encode(), root, name="p")
    assert contents(root) == {
        "run": "", "new.sh": "", "to/there": "a\nc\n", "one": "1", "two": "1", 'ü\t"': "y\n"
    }  # fmt: skip
    modes = {name: (root / name).stat().st_mode & 0o777 for name in ("run", "new.sh", "two")}
    assert modes == {"run": 0o755, "new.sh": 0o755, "two": 0o644}


def test_an_executable_file_stays_executable(tmp_path: Path) -> None:
    root = tree(tmp_path, {"f": NUMBERS})
    (root / "f").chmod(0o755)
    apply_patch((header() + MIDDLE).encode(), root, name="p")
    assert (root / "f").stat().st_mode & 0o777 == 0o755


def test_other_names_of_a_file_keep_it(tmp_path: Path) -> None:
    root = tree(tmp_path, {"f": NUMBERS})
    (root / "g").hardlink_to(root / "f")
    apply_patch((header() + MIDDLE).encode(), root, name="p")
    assert (root / "g").read_text() == NUMBERS


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text(NUMBERS)
    root = tree(tmp_path, {})
    (root / "d").symlink_to(tmp_path / "outside")
    (root / "f").symlink_to(tmp_path / "outside/f")
    new = "--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+x\n"
    for patch in (header("d/f") + MIDDLE, header("f") + MIDDLE, new):
        with pytest.raises(ResolveError, match="is a symbolic link"):
            apply_patch(patch.encode(), root, name="p")
    assert contents(tmp_path / "outside") == {"f": NUMBERS}


@pytest.mark.parametrize(
    "path", ["a/../../x", "/etc/passwd", "../x", "a/b/../../../x", '"a/\\056\\056/\\056\\056/x"', '"/x"']
)
def test_paths_out_of_the_tree(path: str) -> None:
    for patch in (f"--- {path}\n+++ {path}\n{MIDDLE}", f"--- /dev/null\n+++ {path}\n{MIDDLE}"):
        with pytest.raises(InvalidFileError, match=r"line [12]: the path .* leads out of the tree"):
            parse_patch(patch.encode(), name="p")
    renaming = f"diff --git a/x b/y\nrename from x\nrename to {path}\n"
    if not path.startswith("a/b"):
        with pytest.raises(InvalidFileError, match="line 3: the path"):
            parse_patch(renaming.encode(), name="p")


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("", "it changes no file"),
        ("no patch at all\n", "it changes no file"),
        (MIDDLE, "line 1: there is a hunk, but no file is named before it"),
        (f"--- f\n+++ f\n{MIDDLE}", "has no first component to drop"),
        ("--- /dev/null\n+++ /dev/null\n" + MIDDLE, "line 1: it names no file"),
        (header() + MIDDLE.removesuffix(" 11\n"), "line 3: the patch ends in the middle of a hunk"),
        (header() + "@@ -1,3 +1,2 @@\n a\n-b\n@@ -9 +9 @@\n-a\n+b\n", "line 6: the hunk has fewer lines"),
        (header() + "@@ -1,1 +1,2 @@\n-a\n-b\n+c\n+d\n", "line 3: the hunk has more lines than it says"),
        (header() + "@@ -1 +1 @@\n a\n", "line 3: the hunk changes nothing"),
        ("diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 3\n", "a binary file"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "line 2: it changes a binary file"),
        (header() + MIDDLE + "Binary files a/f and b/f differ\n", "line 8: it changes a binary file"),
        ("diff --git a/f b/f\nnew file mode 120000\n", "line 2: it changes a symbolic link"),
        ("diff --git a/f b/f\nnew file mode 160000\n", "line 2: it changes a submodule"),
        ("diff --git a/f b/f\nnew mode 100600\n", "line 2: it changes a file of the mode '100600'"),
        ("diff --git a/f b/g\nold mode 100644\nnew mode 100755\n", "line 1: it is not clear which file"),
        ("diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1,1 -1,1 +1,2 @@@\n", "line 1: it is the diff of a merge"),
    ],
)  # fmt: skip
def test_what_is_no_patch(patch: str, said: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parse_patch(patch.encode(), name="fix.patch")
    assert caught.value.on == "fix.patch"
    assert said in str(caught.value)


def test_git_reads_the_same_in_it(tmp_path: Path) -> None:
    """A real series of changes, written by git and applied by git, is the oracle."""
    old, new = tmp_path / "a", tmp_path / "b"
    files = {"m/keep": NUMBERS, "m/edit": NUMBERS, "gone": "1\n2\n", "moved": NUMBERS * 3, "ü b": "x"}
    for name, text in files.items():
        for side in (old, new):
            (side / name).parent.mkdir(parents=True, exist_ok=True)
            (side / name).write_text(text)
    (new / "m/edit").write_text("0\n" + NUMBERS.replace("5\n", "", 1) + "end")
    (new / "gone").unlink()
    (new / "moved").rename(new / "m/there")
    (new / "m/there").write_text(NUMBERS * 3 + "more\n")
    (new / "ü b").write_text("y\n")
    (new / "run").write_text("#!/bin/sh\n")
    (new / "run").chmod(0o755)
    command = ["git", "diff", "--no-index", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"]
    said = subprocess.run([*command, "a", "b"], cwd=tmp_path, capture_output=True, check=False).stdout
    # git puts the compared directories into the paths; a commit's patch has none.
    for side in (b"a", b"b"):
        said = said.replace(side + b"/" + side + b"/", side + b"/")
        said = said.replace(b"rename from a/", b"rename from ").replace(b"rename to b/", b"rename to ")
    assert b"rename from" in said
    apply_patch(said, old, name="git")
    assert contents(old) == contents(new)
    assert os.access(old / "run", os.X_OK)
