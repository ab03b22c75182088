from __future__ import annotations

import csv
import hashlib
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.wheels import wheels
from lockbuild.errors import IntegrityError, ResolveError
from tests.support.wheels import hashed, write_wheel

LIBRARY = "opt/tool/lib/python"


def install(tmp_path: Path, *files: Path, name: str = "root", mount: str = "/opt/tool") -> Path:
    root = tmp_path / name
    root.mkdir()
    wheels(files, root, mount=mount)
    return root


def executable(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) == 0o755


def test_every_part_of_a_wheel_goes_to_its_place(tmp_path: Path) -> None:
    file = write_wheel(
        tmp_path,
        {
            "tool/__init__.py": "",
            "tool/bin/helper": "elf",
            "tool-1.0.data/purelib/pure.py": "pure",
            "tool-1.0.data/platlib/plat.so": "plat",
            "tool-1.0.data/scripts/native": b"\x7fELF",
            "tool-1.0.data/data/share/man/tool.1": "man",
            "tool-1.0.data/headers/tool.h": "header",
        },
        modes={"tool/bin/helper": 0o100744},
    )
    root = install(tmp_path, file)
    assert (root / LIBRARY / "pure.py").read_text() == "pure"
    assert (root / LIBRARY / "plat.so").read_text() == "plat"
    assert executable(root / LIBRARY / "tool/bin/helper")
    assert not executable(root / LIBRARY / "tool/__init__.py")
    assert (root / "opt/tool/bin/native").read_bytes() == b"\x7fELF"
    assert executable(root / "opt/tool/bin/native")
    assert (root / "opt/tool/share/man/tool.1").read_text() == "man"
    assert (root / "opt/tool/include/tool/tool.h").read_text() == "header"
    assert not list(root.rglob("*.data"))


def test_the_installed_record_is_true(tmp_path: Path) -> None:
    file = write_wheel(
        tmp_path,
        {
            "tool.py": "def main(): pass\n",
            'odd, "name".txt': "x",
            "tool-1.0.data/scripts/native": b"\x7fELF",
            "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool:main\n",
        },
    )
    root = install(tmp_path, file)
    library = root / LIBRARY
    with (library / "tool-1.0.dist-info/RECORD").open(newline="") as text:
        rows = list(csv.reader(text))
    assert rows[-1] == ["tool-1.0.dist-info/RECORD", "", ""]
    installed = {os.path.relpath(path, library) for path in (root / "opt/tool").rglob("*") if path.is_file()}
    assert {path for path, _, _ in rows} == installed
    for path, digest, size in rows[:-1]:
        data = (library / path).read_bytes()
        assert (digest, size) == (hashed(data), str(len(data)))
    assert (library / "tool-1.0.dist-info/INSTALLER").read_text() == "lockbuild\n"


def test_launchers_run_with_the_trees_own_packages(tmp_path: Path) -> None:
    """Installed at the place that they are mounted at, so that they can be run here."""
    file = write_wheel(
        tmp_path,
        {
            "tool/__init__.py": "class App:\n @staticmethod\n def main():\n  print(__file__)\n  return 7\n",
            "tool-1.0.data/scripts/scripted": "#!python -u\nfrom __future__ import annotations\nimport sys\n"
            "import tool\nprint(tool.__file__, *sys.argv[1:])\nsys.exit(9)\n",
            "tool-1.0.data/scripts/shell": "#!/bin/sh\necho shell\n",
            "tool-1.0.dist-info/entry_points.txt": "# a comment\n[console_scripts]\n"
            "Tool-X = tool:App.main [extra]\n[gui_scripts]\ngui= tool :App.main\n[other]\nx = not a : reference\n",
        },
    )
    root = tmp_path / "root"
    root.mkdir()
    mount = f"{root}/opt/tool"  # below root stands root again: what a mount at / would show
    wheels([file], root, mount=mount, python=sys.executable)
    (root / "opt").symlink_to(root / mount.strip("/") / "..")
    package = f"{mount}/lib/python/tool/__init__.py"
    for name, status, output in [
        ("Tool-X", 7, package),
        ("gui", 7, package),
        ("scripted", 9, f"{package} one two"),
        ("shell", 0, "shell"),
    ]:
        done = subprocess.run([f"{mount}/bin/{name}", "one", "two"], capture_output=True, text=True, env={})
        assert (done.returncode, done.stdout.strip(), done.stderr) == (status, output, "")


def test_the_launcher_is_the_same_everywhere(tmp_path: Path) -> None:
    file = write_wheel(
        tmp_path,
        {"tool.py": "", "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool=tool.cli:app.main\n"},
    )
    assert (install(tmp_path, file) / "opt/tool/bin/tool").read_text() == (
        "#!/usr/bin/python3\nimport sys\n\nsys.path.insert(0, '/opt/tool/lib/python')\n"
        "from tool.cli import app\n\nsys.exit(app.main())\n"
    )


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_a_file_is_checked_with_the_algorithm_of_its_row(tmp_path: Path, algorithm: str) -> None:
    right = write_wheel(tmp_path, {"a.py": "x"}, algorithm=algorithm)
    install(tmp_path, right)
    wrong = write_wheel(
        tmp_path, {"a.py": "x"}, algorithm=algorithm, record={"a.py": f"{hashed(b'y', algorithm)},1"}
    )
    with pytest.raises(IntegrityError, match=f"'a.py' is not what RECORD says: {algorithm}="):
        install(tmp_path, wrong, name="wrong")


@pytest.mark.parametrize(
    ("files", "record", "what"),
    [
        ({"a.py": "x"}, {"a.py": f"{hashed(b'y')},1"}, "'a.py' is not what RECORD says"),
        ({"a.py": "x"}, {"a.py": f"{hashed(b'x')},2"}, "'a.py' is not what RECORD says"),
        ({"a.py": "x"}, {"a.py": None}, "'a.py' is in the wheel, but not in RECORD"),
        ({"a.py": "x"}, {"a.py": ","}, "'a.py' has no hash in RECORD"),
        ({"a.py": "x"}, {"a.py": f"md5={hashlib.md5(b'x').hexdigest()},1"}, "no hash that can be trusted"),
        ({"a.py": "x"}, {"b.py": f"{hashed(b'x')},1"}, "'b.py' is in RECORD, but not in the wheel"),
        ({"a.py": "x"}, {"a.py": "a,b,c"}, "RECORD has a row that is not valid"),
        (
            {"tool-1.0.data/scripts/s": "#!python\n"},
            {"tool-1.0.data/scripts/s": f"{hashed(b'')},9"},
            "/s' is not",
        ),
        ({"tool-1.0.data/odd/x": ""}, {}, "unknown scheme"),
        ({"tool-1.0.data/file": ""}, {}, "in no scheme"),
        ({"tool-1.0.data/scripts/a/b": ""}, {}, "a script in a directory"),
        ({"../evil": "x"}, {}, r"has a '\.\.'"),
        ({"tool-1.0.data/data/../../../../evil": "x"}, {}, r"has a '\.\.'"),
        ({"tool-1.0.data/data//evil/../..": "x"}, {}, r"has a '\.\.'"),
        ({"other-2.0.dist-info/METADATA": ""}, {}, "has 2 .dist-info directories"),
        ({"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\nx = y\n"}, {}, "x = y"),
        ({"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\na/b = y:z\n"}, {}, "a/b = y:z"),
        ({"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\na = y:z()\n"}, {}, "a = y:z"),
        ({"tool-1.0.dist-info/entry_points.txt": "no section\n"}, {}, "entry_points.txt is not valid"),
    ],
)
def test_a_wheel_that_is_not_what_it_says_names_itself_and_the_file(
    tmp_path: Path, files: dict[str, str], record: dict[str, str | None], what: str
) -> None:
    with pytest.raises(IntegrityError, match=what) as error:
        install(tmp_path, write_wheel(tmp_path, files, record=record))
    assert "tool-1.0" in str(error.value)
    assert not (tmp_path / "evil").exists()


def test_links_and_devices_in_a_wheel_are_refused(tmp_path: Path) -> None:
    file = write_wheel(tmp_path, {"a": "/etc"}, modes={"a": stat.S_IFLNK | 0o777})
    with pytest.raises(IntegrityError, match="a link or a special file"):
        install(tmp_path, file)


def test_a_later_wheel_format_is_refused(tmp_path: Path) -> None:
    file = write_wheel(tmp_path, {}, wheel="Wheel-Version: 2.0\n")
    with pytest.raises(IntegrityError, match="wheel format '2.0'"):
        install(tmp_path, file)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    file = write_wheel(tmp_path, {"a.py": "x"})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("a.py", "evil")
    with pytest.raises(IntegrityError, match="holds 'a.py' twice"):
        install(tmp_path, file)


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    file = write_wheel(tmp_path, {"a.py": "x" * 50})
    good = file.read_bytes()
    expected = tree_digest(install(tmp_path, file, name="good"))
    found = 0
    for position in range(0, len(good), 7):
        data = bytearray(good)
        data[position] ^= 0x20
        file.write_bytes(data)
        try:
            root = install(tmp_path, file, name=f"flipped-{position}")
        except IntegrityError:
            found += 1
        else:  # times, versions and the like, which decide nothing
            assert tree_digest(root) == expected
    assert found > 30


def test_no_zip_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x.whl"
    file.write_bytes(b"nothing")
    with pytest.raises(IntegrityError, match="is damaged"):
        install(tmp_path, file)


def test_two_wheels_may_share_what_is_the_same(tmp_path: Path) -> None:
    one = write_wheel(tmp_path, {"space/__init__.py": "", "one.py": ""}, name="one")
    two = write_wheel(tmp_path, {"space/__init__.py": "", "two.py": ""}, name="two")
    root = install(tmp_path, one, two)
    assert tree_digest(root) == tree_digest(install(tmp_path, two, one, name="other"))


def test_two_wheels_with_different_files_at_one_place_are_a_conflict(tmp_path: Path) -> None:
    one = write_wheel(tmp_path, {"space/__init__.py": ""}, name="one")
    two = write_wheel(tmp_path, {"space/__init__.py": "# mine"}, name="two")
    with pytest.raises(ResolveError, match="both install lib/python/space/__init__.py") as error:
        install(tmp_path, two, one)
    assert error.value.on == "wheels one-1.0 and two-1.0"
