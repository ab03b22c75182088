"""pip's configuration as pip reads it; pip itself is the judge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockbuild.config import pip
from lockbuild.errors import UsageError

BUILT_IN = pip._built_in_index()


class Machine:
    """A root directory with configuration files, and an environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.environ = {"HOME": str(self.home), "VIRTUAL_ENV": str(root / "venv")}

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def indexes(self, **environ: str) -> list[str]:
        return pip.indexes({**self.environ, **environ}, root=self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_index_that_pip_has_built_in(machine: Machine) -> None:
    assert machine.indexes() == [BUILT_IN]
    assert BUILT_IN.startswith("https://")
    assert pip._bundled_index() == BUILT_IN


def test_the_strongest_file_wins(machine: Machine) -> None:
    seen = []
    for path in (
        "etc/xdg/pip/pip.conf",
        "etc/pip.conf",
        "home/.pip/pip.conf",
        "home/.config/pip/pip.conf",
        "venv/pip.conf",
    ):
        machine.write(path, f"[global]\nindex-url = http://h.test/{len(seen)}/\n")
        seen.append(machine.indexes())
    assert seen == [[f"http://h.test/{number}"] for number in range(5)]
    assert machine.indexes(PIP_INDEX_URL="http://env.test/simple/") == ["http://env.test/simple"]


def test_options_come_from_different_files(machine: Machine) -> None:
    machine.write(
        "etc/pip.conf", "[global]\nextra-index-url =\n  http://one.test\n  http://two.test http://one.test\n"
    )
    machine.write("home/.config/pip/pip.conf", "[global]\nindex_url = http://main.test\n")
    assert machine.indexes() == ["http://main.test", "http://one.test", "http://two.test"]
    assert machine.indexes(PIP_EXTRA_INDEX_URL="http://three.test") == [
        "http://main.test",
        "http://three.test",
    ]


def test_an_empty_setting_is_none(machine: Machine) -> None:
    machine.write("etc/pip.conf", "[global]\nindex-url = http://main.test\n")
    assert machine.indexes(PIP_INDEX_URL="") == ["http://main.test"]
    machine.write("home/.config/pip/pip.conf", "[global]\nindex-url =\n")
    assert machine.indexes() == [BUILT_IN], "in a stronger file it takes the weaker one's back"


def test_the_section_for_installing_goes_before_the_global_one(machine: Machine) -> None:
    machine.write("etc/pip.conf", "[install]\nindex-url = http://install.test\n")
    machine.write(
        "home/.config/pip/pip.conf", "[global]\nindex-url = http://global.test\n[wheel]\nindex-url = x\n"
    )
    assert machine.indexes() == ["http://install.test"]


def test_the_named_file_replaces_the_users(machine: Machine) -> None:
    machine.write("etc/pip.conf", "[global]\nextra-index-url = http://extra.test\n")
    machine.write("home/.config/pip/pip.conf", "[global]\nextra-index-url = http://user.test\n")
    machine.write("venv/pip.conf", "[global]\nindex-url = http://venv.test\n")
    named = machine.write("named.conf", "[global]\nindex-url = http://named.test\n")
    assert machine.indexes(PIP_CONFIG_FILE=str(named)) == ["http://named.test", "http://extra.test"]
    assert machine.indexes(PIP_CONFIG_FILE=os.devnull) == [BUILT_IN]


def test_no_index_is_said(machine: Machine) -> None:
    with pytest.raises(UsageError, match="no index") as caught:
        machine.indexes(PIP_NO_INDEX="1")
    assert "[pypi] indexes" in str(caught.value)


def test_a_broken_file_is_named(machine: Machine) -> None:
    file = machine.write("etc/pip.conf", "index-url = http://h\n")
    with pytest.raises(UsageError, match="is not a pip configuration") as caught:
        machine.indexes()
    assert str(file) in str(caught.value)


@pytest.mark.slow
def test_pip_agrees(machine: Machine) -> None:
    """What pip's own parser says, for files that can be placed without being root."""
    machine.write(
        "home/.pip/pip.conf", "[global]\nindex-url = http://legacy.test\nextra-index-url = http://a.test\n"
    )
    machine.write(
        "home/.config/pip/pip.conf", "[install]\nextra-index-url =\n  http://b.test\n  http://c.test\n"
    )
    machine.write("xdg/pip/pip.conf", "[global]\nindex-url = http://global.test\n")
    named = machine.write("named.conf", "[global]\nextra_index_url = http://d.test\n")
    empty = machine.write("empty.conf", "[global]\nindex-url =\n")
    for extra in (
        {},
        {"PIP_INDEX_URL": "http://env.test"},
        {"PIP_CONFIG_FILE": str(named)},
        {"PIP_CONFIG_FILE": str(named), "PIP_EXTRA_INDEX_URL": "http://e.test http://f.test"},
        {"PIP_CONFIG_FILE": os.devnull},
        {"PIP_INDEX_URL": ""},
        {"PIP_CONFIG_FILE": str(empty)},
    ):
        environ = {
            "HOME": str(machine.home),
            "XDG_CONFIG_DIRS": str(machine.root / "xdg"),
            "PATH": os.environ["PATH"],
            **extra,
        }
        code = (
            "from pip._internal.commands import create_command;"
            "options, _ = create_command('install').parse_args([]);"
            "urls = [options.index_url, *options.extra_index_urls];"
            "print('\\n'.join(dict.fromkeys(u.rstrip('/') for u in urls)))"
        )
        said = subprocess.run(
            [sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True
        ).stdout.split()
        assert pip.indexes(environ) == said
