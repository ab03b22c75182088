"""The published JSON Schemas: those that the command prints, and as strict as the models as far as a schema can be."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from lockbuild.config import Config
from lockbuild.errors import InvalidFileError
from lockbuild.model.lock import Lock
from lockbuild.model.manifest import ProjectFile, Toolchain
from lockbuild.model.read import validate
from lockbuild.workflow.schema import Format, json_schema

ROOT = Path(__file__).parents[2]
FORMATS: tuple[Format, ...] = get_args(Format)
MODELS = {"manifest": ProjectFile, "toolchain": Toolchain, "lock": Lock, "config": Config}
PROJECTS = sorted((ROOT / "examples").glob("*/lockbuild.toml"))
LOCKS = sorted((ROOT / "examples").glob("*/lockbuild.lock"))
TOOLCHAINS = sorted((ROOT / "toolchains").glob("*.toml"))


def validator(name: Format) -> Draft202012Validator:
    return Draft202012Validator(json.loads(json_schema(name)))


def accepted_by_model(name: Format, data: dict[str, Any]) -> bool:
    try:
        validate(MODELS[name], data, "file")
    except InvalidFileError:
        return False
    return True


@pytest.mark.parametrize("name", FORMATS)
def test_the_published_schema_is_what_the_command_prints(name: Format) -> None:
    """Else: ``lockbuild schema NAME > docs/schemas/NAME.schema.json``."""
    published = ROOT / "docs" / "schemas" / f"{name}.schema.json"
    assert published.read_text(encoding="utf-8") == json_schema(name)


def test_no_other_schema_is_published() -> None:
    published = {path.name for path in (ROOT / "docs" / "schemas").iterdir()}
    assert published == {f"{name}.schema.json" for name in FORMATS}


@pytest.mark.parametrize("name", FORMATS)
def test_it_is_a_schema(name: Format) -> None:
    Draft202012Validator.check_schema(json.loads(json_schema(name)))


@pytest.mark.parametrize("name", FORMATS)
def test_every_key_is_described_and_none_is_null(name: Format) -> None:
    schema = json.loads(json_schema(name))
    for title, definition in [(name, schema), *schema.get("$defs", {}).items()]:
        assert definition["description"], title
        for key, value in definition["properties"].items():
            assert value.get("description"), f"{title}.{key}"
    assert '"null"' not in json_schema(name)
    assert "``" not in json_schema(name)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        *(("manifest", path) for path in PROJECTS),
        *(("lock", path) for path in LOCKS),
        *(("toolchain", path) for path in TOOLCHAINS),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}/{value.name}",
)
def test_what_is_shipped_validates(name: Format, file: Path) -> None:
    validator(name).validate(tomllib.loads(file.read_text(encoding="utf-8")))


def test_there_is_something_to_validate() -> None:
    assert len(PROJECTS) >= 3
    assert LOCKS
    assert TOOLCHAINS


MANIFEST = """
[project]
name = "p"
toolchain = "t"
[targets.a]
steps = ["true"]
outputs = ["lib/*.a"]
[sources.zlib]
from = "debian-source"
package = "zlib"
suite = "trixie"
"""
TOOLCHAIN = """
schema = 1
name = "t"
platforms = ["linux/amd64"]
[base.debian]
suite = "forky"
packages = ["libc6=2.43-7"]
[tools.cmake]
from = "pypi"
requirement = "cmake"
[tools.sdk]
from = "archive"
url = "https://example.test/sdk.tar.xz"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""
CONFIG = """
[debian]
mirrors = ["https://example.test/debian", "file:///srv/debian"]
[network]
timeout = 5
"""
TEXTS: dict[Format, str] = {"manifest": MANIFEST, "toolchain": TOOLCHAIN, "config": CONFIG}


@pytest.mark.parametrize("name", TEXTS)
def test_schema_and_model_accept_the_same(name: Format) -> None:
    data = tomllib.loads(TEXTS[name])
    assert accepted_by_model(name, data)
    validator(name).validate(data)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("manifest", 'name = "p"', 'name = ""'),
        ("manifest", 'name = "p"', 'name = "-p"'),
        ("manifest", 'name = "p"', 'nmae = "p"'),
        ("manifest", "[targets.a]", '[targets."a/b"]'),
        ("manifest", 'steps = ["true"]', "steps = []"),
        ("manifest", 'steps = ["true"]', 'steps = [""]'),
        ("manifest", 'steps = ["true"]', 'steps = "true"'),
        ("manifest", 'outputs = ["lib/*.a"]', ""),
        ("manifest", 'outputs = ["lib/*.a"]', 'outputs = ["../a"]'),
        ("manifest", 'outputs = ["lib/*.a"]', 'outputs = ["lib/.."]'),
        ("manifest", 'outputs = ["lib/*.a"]', 'outputs = ["/lib"]'),
        ("manifest", 'outputs = ["lib/*.a"]', 'outputs = ["a"]\nenv = { "A-B" = "1" }'),
        ("manifest", 'outputs = ["lib/*.a"]', 'outputs = ["a"]\nenv = { A = 1 }'),
        ("manifest", '"debian-source"', '"debian"'),
        ("manifest", '"debian-source"', '"pypi"'),
        ("manifest", 'from = "debian-source"', ""),
        ("manifest", 'package = "zlib"', 'package = "Zlib"'),
        ("manifest", 'suite = "trixie"', 'suite = "trixie"\nsnapshot = "2026-11-01"'),
        ("toolchain", "schema = 1", "schema = 2"),
        ("toolchain", "schema = 1", ""),
        ("toolchain", '["linux/amd64"]', "[]"),
        ("toolchain", '["linux/amd64"]', '["linux/mips"]'),
        ("toolchain", '"libc6=2.43-7"', '"libc6 (= 2.43-7)"'),
        ("toolchain", 'requirement = "cmake"', 'requirement = "cmake"\nmount = "/usr/cmake"'),
        ("toolchain", 'requirement = "cmake"', 'requirement = "cmake"\nmount = "/opt"'),
        ("toolchain", 'requirement = "cmake"', 'requirement = "cmake"\nmount = "/opt/a/../b"'),
        ("toolchain", 'requirement = "cmake"', 'requirement = "cmake"\nmount = "/opt/a/"'),
        ("toolchain", "https://example.test/sdk", "ftp://example.test/sdk"),
        ("toolchain", "sha256 = \"0000", "sha256 = \"000"),
        ("toolchain", "sha256 = \"0000", "strip = -1\nsha256 = \"0000"),
        ("config", '"https://example.test/debian"', '"example.test/debian"'),
        ("config", '"https://example.test/debian"', '"https:///debian"'),
        ("config", "timeout = 5", "timeout = 0"),
        ("config", "timeout = 5", "retries = 21"),
        ("config", "timeout = 5", "connections = 0"),
        ("config", "[network]", "[networks]"),
    ],
)  # fmt: skip
def test_schema_and_model_refuse_the_same(name: Format, old: str, new: str) -> None:
    assert old in TEXTS[name]
    data = tomllib.loads(TEXTS[name].replace(old, new, 1))
    assert not accepted_by_model(name, data)
    assert not validator(name).is_valid(data)
