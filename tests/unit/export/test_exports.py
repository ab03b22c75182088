"""Exported files are what their readers take them for, whatever the variables' values."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockbuild.errors import UsageError
from lockbuild.export import cmake_presets, compose, devcontainer, dockerfile, variables
from lockbuild.export.formats import FILES
from lockbuild.export.subject import CMake, Image, Subject
from lockbuild.model.digest import Digest

IDENTITY = Digest("0123456789abcdef" * 4)
PINNED = f"registry.example:5000/team/environment:1@{IDENTITY}"
ODD = {
    "PLAIN": "/opt/cmake/bin:/usr/bin",
    "SPACED": "-O2 -g",
    "DOLLAR": "$HOME ${x} $$ $penv{PATH}",
    "QUOTED": 'a "b" \\ `c` # d',
    "EMPTY": "",
    "LETTERS": "ü ≤ 🦊",
}
APOSTROPHE = {"APOSTROPHE": "it's"}
LINES = {"LINES": "one\ntwo\nEND"}


def subject(**variables: str) -> Subject:
    return Subject(
        name="toolchain",
        project="project",
        image=Image(PINNED, IDENTITY, local=False),
        variables={**ODD, **variables},
        added={"BUILD": "/build/build", "SOURCE": "/build/source", **ODD},
        sources=(),
        cmake=CMake("/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake", "/opt/ninja/bin/ninja"),
    )


@pytest.mark.parametrize("name", FILES)
def test_it_is_pinned_by_digest(name: str) -> None:
    text = FILES[name].render(subject())
    assert (PINNED if name != "cmake-presets" else str(IDENTITY)) in text
    assert text == FILES[name].render(subject())
    assert text.endswith("\n")


@pytest.mark.parametrize("name", ["dockerfile", "devcontainer", "compose"])
def test_what_is_not_in_the_image_is_said(name: str) -> None:
    local = replace(subject(), image=Image("lockbuild/x:0123", IDENTITY, local=True), sources=("zlib",))
    text = FILES[name].render(local)
    assert "`lockbuild image load`" in text
    assert "further sources (zlib)" in text
    assert "image load" not in FILES[name].render(subject())


def test_the_shell_reads_it_back(tmp_path: Path) -> None:
    wanted = {**ODD, **APOSTROPHE, **LINES}
    (tmp_path / "env").write_text(variables.render(subject(**wanted), "shell"))
    script = '. ./env; exec "$0" -c "import json, os; print(json.dumps(dict(os.environ)))"'
    said = subprocess.run(
        ["/bin/sh", "-e", "-c", script, sys.executable], cwd=tmp_path, capture_output=True, check=True, env={}
    )
    found = json.loads(said.stdout)
    assert {name: found[name] for name in wanted} == wanted
    assert found[variables.IMAGE] == PINNED


def test_json_is_an_object_of_strings() -> None:
    found = json.loads(variables.render(subject(**LINES), "json"))
    assert {name: found[name] for name in LINES} == LINES
    assert list(found) == sorted(found)


def test_dotenv_refuses_what_its_readers_would_read_differently() -> None:
    text = variables.render(subject(), "dotenv")
    assert "PLAIN=/opt/cmake/bin:/usr/bin\n" in text
    assert "SPACED='-O2 -g'\n" in text
    for extra in (APOSTROPHE, LINES):
        with pytest.raises(UsageError, match="use another --format"):
            variables.render(subject(**extra), "dotenv")


def test_github_keeps_lines_apart() -> None:
    text = variables.render(subject(**LINES), "github")
    assert "LINES<<END_\none\ntwo\nEND\nEND_\n" in text
    assert f"DOLLAR={ODD['DOLLAR']}\n" in text


def test_compose_is_yaml_with_dollars_doubled() -> None:
    service: dict[str, Any] = yaml.safe_load(compose.render(subject()))["services"]["environment"]
    assert service["image"] == PINNED
    assert "pull_policy" not in service
    assert service["network_mode"] == "none"
    assert {name: value.replace("$$", "$") for name, value in service["environment"].items()} == {
        **ODD,
        "BUILD": "/build/build",
        "SOURCE": "/build/source",
    }


def test_docker_compose_reads_it(tmp_path: Path) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    (tmp_path / "compose.yaml").write_text(compose.render(subject()))
    done = subprocess.run(
        [program, "-f", "compose.yaml", "config"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    environment = yaml.safe_load(done.stdout)["services"]["environment"]["environment"]
    # It prints a dollar as it has to be written.
    assert {name: value.replace("$$", "$") for name, value in environment.items()}.items() >= ODD.items()


def test_a_development_container_is_plain_json() -> None:
    value = json.loads(devcontainer.render(subject()))
    assert value["image"] == PINNED
    assert value["workspaceFolder"] == "/build/source"
    assert value["containerEnv"].items() >= ODD.items()
    assert "vscode" in value["customizations"]
    assert "vscode" not in json.loads(devcontainer.render(replace(subject(), cmake=None)))["customizations"]


def test_cmake_lists_the_presets(tmp_path: Path) -> None:
    cmake = Path(sys.executable).with_name("cmake")
    assert cmake.exists(), "these tests need cmake 3.31 or newer in the virtual environment"
    (tmp_path / "CMakePresets.json").write_text(cmake_presets.render(subject()))
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\n")
    for kind in ("configure", "build"):
        done = subprocess.run(
            [cmake, f"--list-presets={kind}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert '"lockbuild-release"' in done.stdout
        assert '"lockbuild-debug"' in done.stdout


def test_cmake_sees_the_variables_as_they_are(tmp_path: Path) -> None:
    cmake = Path(sys.executable).with_name("cmake")
    plain = replace(subject(), cmake=CMake(None, None), variables=ODD)
    (tmp_path / "CMakePresets.json").write_text(cmake_presets.render(plain))
    shown = "".join(f'file(WRITE "${{CMAKE_BINARY_DIR}}/{name}" "$ENV{{{name}}}")\n' for name in ODD)
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\n{shown}"
    )
    done = subprocess.run(
        [cmake, "--preset", "lockbuild-release"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "build/lockbuild-release"
    assert {name: (directory / name).read_text() for name in ODD} == ODD
    assert "CMAKE_BUILD_TYPE:STRING=Release" in (directory / "CMakeCache.txt").read_text()


def test_an_environment_without_cmake_has_no_presets() -> None:
    with pytest.raises(UsageError, match=r"has no CMake\nhint: add one to the toolchain"):
        cmake_presets.render(replace(subject(), cmake=None))


def test_a_dockerfile_cannot_hold_lines() -> None:
    with pytest.raises(UsageError, match="without --target"):
        dockerfile.render(replace(subject(), added=LINES))


def test_yaml_reads_any_character_back() -> None:
    odd = "".join(map(chr, [*range(1, 0x100), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0x1F98A]))
    names = dict.fromkeys(["Y", "NO", "ON", "NULL", "TRUE", "_"], "x")
    value = replace(subject(), added={"CHARACTERS": odd, **names})
    found = yaml.safe_load(compose.render(value))["services"]["environment"]["environment"]
    assert found == {"CHARACTERS": odd.replace("$", "$$"), **names}


@pytest.mark.parametrize("value", ["${localEnv:TOKEN}", "a ${containerEnv:HOME:x} b", "${devcontainerId}"])
def test_a_development_container_gets_nothing_of_the_machine(value: str) -> None:
    with pytest.raises(UsageError, match="development container would take for a variable"):
        devcontainer.render(replace(subject(), added={"X": value}))
