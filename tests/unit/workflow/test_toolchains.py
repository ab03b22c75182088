"""Toolchains that extend one another, and projects that override them: what comes of it, and whose the mistakes are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.errors import InvalidFileError, LockbuildError, UsageError
from lockbuild.model.overlay import Origin, Overlay
from lockbuild.workflow.project import Project, load_project
from lockbuild.workflow.toolchains import read_toolchain, shipped_toolchains
from lockbuild.workflow.workspace import ProjectPaths

FORMATS = Path(__file__).parents[3] / "docs" / "formats.md"
BASE = """\
schema = 1
name = "base"
platforms = ["linux/amd64"]

[base.debian]
suite = "forky"
packages = ["busybox", "greeting"]

[tools.cmake]
from = "pypi"
requirement = "cmake>=3.31,<3.32"
exports = { CMAKE_GENERATOR = "Ninja" }

[tools.ninja]
from = "pypi"
requirement = "ninja"

[derive.one]
steps = ["true"]
env = { A = "1", B = "2" }
"""
PROJECT = """\
[project]
name = "p"
toolchain = "./mine.toml"

[targets.t]
steps = ["true"]
outputs = ["a"]
"""


def project(directory: Path, mine: str, overrides: str = "", base: str = BASE) -> Project:
    (directory / "base.toml").write_text(base)
    (directory / "mine.toml").write_text(f'schema = 1\nname = "mine"\nextends = "./base.toml"\n{mine}')
    (directory / "lockbuild.toml").write_text(PROJECT + overrides)
    return load_project(ProjectPaths(directory))


def problems(directory: Path, mine: str, overrides: str = "", base: str = BASE) -> tuple[str, list[str]]:
    with pytest.raises(InvalidFileError) as caught:
        project(directory, mine, overrides, base)
    assert caught.value.on is not None
    return Path(caught.value.on).name, [str(problem) for problem in caught.value.problems]


def test_tables_merge_and_everything_else_is_replaced(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        """
        [base.debian]
        packages = ["busybox"]
        [tools.cmake]
        exports = { CMAKE_COLOR = "0" }
        [derive.one]
        env = { B = "3" }
        [derive.two]
        steps = ["true"]
        needs = ["one"]
        """,
        '[overrides.tools.cmake]\nrequirement = "cmake==3.31.10"\n',
    )
    assert found.manifest.inputs() == {
        "name": "mine",
        "platforms": ["linux/amd64"],
        "base.debian.suite": "forky",
        "base.debian.packages": ["busybox"],
        "tools.cmake.from": "pypi",
        "tools.cmake.requirement": "cmake==3.31.10",
        "tools.cmake.exports.CMAKE_GENERATOR": "Ninja",
        "tools.cmake.exports.CMAKE_COLOR": "0",
        "tools.ninja.from": "pypi",
        "tools.ninja.requirement": "ninja",
        "derive.one.steps": ["true"],
        "derive.one.env.A": "1",
        "derive.one.env.B": "3",
        "derive.two.steps": ["true"],
        "derive.two.needs": ["one"],
    }
    assert [path.name for path in found.files] == [
        "lockbuild.toml",
        "base.toml",
        "mine.toml",
        "lockbuild.lock",
    ]


def test_what_a_shipped_toolchain_derives_can_be_added_to(tmp_path: Path) -> None:
    """By the example of docs/formats.md."""
    blocks = re.findall(r"^```toml\n(.*?)^```", FORMATS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    example = next(block for block in blocks if block.startswith("[overrides.derive.emscripten-libraries]"))
    target = '[targets.t]\nsteps = ["true"]\noutputs = ["t"]\n'
    for name, file in shipped_toolchains().items():
        steps = tomllib.loads(file.read_text())["derive"]["emscripten-libraries"]["steps"]
        assert steps[0].endswith("> p.cpp"), "the probe that the document promises"
        (tmp_path / "lockbuild.toml").write_text(
            f'[project]\nname = "p"\ntoolchain = "{name}"\n{target}\n{example}'
        )
        derive = load_project(ProjectPaths(tmp_path)).manifest.toolchain.derive["emscripten-libraries"]
        assert derive.all_steps == (*steps, "em++ -O2 -pthread p.cpp -o p.js")


def test_a_tool_from_elsewhere_replaces_the_whole_table(tmp_path: Path) -> None:
    archive = f'from = "archive"\nurl = "https://example.test/cmake.tar"\nsha256 = "{"0" * 64}"'
    found = project(tmp_path, "", f"[overrides.tools.cmake]\n{archive}\n")
    assert found.manifest.toolchain.tools["cmake"].exports == {}
    assert [key for key in found.manifest.inputs() if key.startswith("tools.cmake.")] == [
        "tools.cmake.from",
        "tools.cmake.sha256",
        "tools.cmake.url",
    ]


def test_a_project_can_have_a_tool_more(tmp_path: Path) -> None:
    found = project(tmp_path, "", '[overrides.tools.meson]\nfrom = "pypi"\nrequirement = "meson"\n')
    assert list(found.manifest.toolchain.tools) == ["cmake", "ninja", "meson"]


@pytest.mark.parametrize(
    ("mine", "overrides", "file", "told"),
    [
        (
            "",
            '[overrides.tools.cmake]\nrequirement = "cmake>>3"\n',
            "lockbuild.toml",
            "overrides.tools.cmake.requirement: 'cmake>>3' is not a requirement",
        ),
        ('[tools.ninja]\nrequirement = ">"\n', "", "mine.toml", "tools.ninja.requirement: '>' is not a"),
        (
            '[tools.ninja]\nrequirment = "a"\n',
            "",
            "mine.toml",
            "tools.ninja.requirment: unknown key; did you mean 'requirement'?",
        ),
        (
            '[tools.nijna]\nrequirement = "a"\n',
            "",
            "mine.toml",
            "tools.nijna: there is no such table to change (did you mean 'ninja'?), and a new one needs `from`",
        ),
        (
            "",
            '[overrides.derive.two]\nenv = { A = "1" }\n',
            "lockbuild.toml",
            "overrides.derive.two: there is no such table to change (there is: one), and a new one needs `steps`",
        ),
        (
            '[derive.two]\nsteps = ["true"]\nneeds = ["three"]\n',
            "",
            "mine.toml",
            "derive.two.needs: 'three' is not a derive that stands above it",
        ),
        (
            "",
            '[overrides.tools.ninja]\nmount = "/opt/cmake"\n',
            "lockbuild.toml",
            "overrides.tools.ninja.mount: /opt/cmake is also the mount of tools.cmake",
        ),
        (
            "",
            "[overrides.tools.ninja]\nmount = 1.5\n",
            "lockbuild.toml",
            "overrides.tools.ninja.mount: must be a string, a whole number, true or false, a list",
        ),
        ("", '[overrides.base]\nalpine = "3"\n', "lockbuild.toml", "overrides.base.alpine: unknown key"),
    ],
)
def test_a_mistake_is_told_with_the_file_and_key_where_it_stands(
    tmp_path: Path, mine: str, overrides: str, file: str, told: str
) -> None:
    found, texts = problems(tmp_path, mine, overrides)
    assert found == file
    assert len(texts) == 1
    assert texts[0].startswith(told)


def test_mistakes_of_several_files_are_told_at_once(tmp_path: Path) -> None:
    base = BASE.replace('requirement = "ninja"', 'requirement = "<"')
    file, texts = problems(tmp_path, "[tools.cmake]\nmount = 7\n", base=base)
    assert file == "mine.toml"
    assert texts[0] == "tools.cmake.mount: must be a string, not a whole number"
    assert texts[1].startswith("tools.ninja.requirement: '<' is not a requirement")
    assert texts[1].endswith(f"(in {tmp_path / 'base.toml'})")


def test_what_the_base_has_wrong_is_not_hidden_by_being_extended(tmp_path: Path) -> None:
    file, texts = problems(tmp_path, "", base=BASE.replace("schema = 1", "schema = 2"))
    assert (file, texts) == ("base.toml", ["schema: must be 1, not 2"])


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_toolchain_cannot_extend_itself(tmp_path: Path, names: list[str]) -> None:
    for name, below in zip(names, [*names[1:], names[0]], strict=True):
        (tmp_path / f"{name}.toml").write_text(f'schema = 1\nname = "{name}"\nextends = "./{below}.toml"\n')
    with pytest.raises(InvalidFileError) as caught:
        read_toolchain("./a.toml", tmp_path, on=tmp_path / "lockbuild.toml", key="project.toolchain")
    round_ = " -> ".join(f"{name}.toml" for name in [*names, "a"])
    assert [str(problem) for problem in caught.value.problems] == [
        f"extends: a toolchain cannot extend itself: {round_}"
    ]


def test_a_path_is_relative_to_the_file_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "deep" / "mine.toml").write_text('schema = 1\nname = "m"\nextends = "../base.toml"\n')
    read = read_toolchain("deep/mine.toml", tmp_path, on=tmp_path, key="project.toolchain")
    assert read.toolchain().name == "m"
    assert [file.name for file in read.files] == ["base.toml", "mine.toml"]


def test_what_is_not_there_is_told_with_who_asks(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('schema = 1\nname = "m"\nextends = "emscripten-debain"\n')
    with pytest.raises(UsageError) as caught:
        read_toolchain("./mine.toml", tmp_path, on=tmp_path, key="project.toolchain")
    assert caught.value.on == str(file)
    assert caught.value.what.startswith("extends: there is no toolchain 'emscripten-debain'")
    assert "did you mean 'emscripten-debian'?" in str(caught.value)


def test_a_file_that_is_not_there_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "lockbuild.toml").write_text(PROJECT)
    with pytest.raises(UsageError) as caught:
        load_project(ProjectPaths(tmp_path))
    assert str(caught.value).startswith(
        f"{tmp_path / 'lockbuild.toml'}: project.toolchain: there is no file './mine.toml'\nhint: make it at "
    )


@pytest.mark.parametrize("name", shipped_toolchains())
def test_every_shipped_toolchain_is_valid(name: str, tmp_path: Path) -> None:
    read = read_toolchain(name, tmp_path, on=tmp_path, key="project.toolchain")
    assert read.toolchain().name == name


tables = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "from"]), inner, max_size=3),
    max_leaves=12,
)
files = st.dictionaries(st.sampled_from(["a", "b", "c"]), tables, max_size=3)


def leaves(data: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {path: data}
    return {
        key: value
        for name, inner in data.items()
        for key, value in leaves(inner, f"{path}.{name}" if path else name).items()
    }


@given(files, files, files)
def test_every_key_is_of_the_last_file_that_says_it(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    said = {"1": one, "2": two, "3": three}
    overlay = Overlay.of(one, Origin("1")).extended(two, Origin("2")).extended(three, Origin("3"))
    for key, value in leaves(overlay.data).items():
        whose = overlay.origin(key).file
        assert leaves(said[whose])[key] == value
        for later in range(int(whose) + 1, 4):
            assert key not in leaves(said[str(later)])
    assert {key: leaves(overlay.data)[key] for key in leaves(three)} == leaves(three)


@given(files, files)
def test_a_file_over_itself_changes_nothing(one: dict[str, Any], two: dict[str, Any]) -> None:
    merged = Overlay.of(one, Origin("1")).extended(two, Origin("2"))
    assert merged.extended(two, Origin("2")).data == merged.data
    assert Overlay.of(one, Origin("1")).extended({}, Origin("2")).data == one


def test_a_claim_of_the_project_stands_instead_of_that_of_the_toolchain(tmp_path: Path) -> None:
    claim = '[claims.{}]\nby = "{}"\nfiles = [{{ path = "a", size = 1, sha256 = "{}" }}]\n'
    one, two = claim.format("t", "them", "1" * 64), claim.format("u", "they", "2" * 64)
    found = project(tmp_path, one + two, claim.format("t", "us", "3" * 64))
    assert {name: claim.by for name, claim in found.manifest.claims().items()} == {"t": "us", "u": "they"}
    assert not any(key.startswith("claims") for key in found.manifest.inputs())


_FILE = f'{{ path = "a", size = 1, sha256 = "{"0" * 64}" }}'
TWICE = f"[{_FILE}, {_FILE}]"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ("[]", "claims.t.files: must not be empty"),
        ('[{ path = "../a", size = 1, sha256 = "00" }]', "claims.t.files[0].path: '../a' leaves the project"),
        ('[{ path = "a", size = 1, sha256 = "00" }]', "claims.t.files[0].sha256: '00' is not a SHA-256"),
        (TWICE, "claims.t.files: 'a' is there twice"),
    ],
)
def test_claims_are_checked(tmp_path: Path, files: str, told: str) -> None:
    with pytest.raises(LockbuildError) as caught:
        project(tmp_path, "", f'[claims.t]\nby = "them"\nfiles = {files}\n')
    assert told in str(caught.value)
