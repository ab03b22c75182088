"""The documentation stays true: its command lines parse, its keys and links exist, its examples come out."""

from __future__ import annotations

import argparse
import io
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import pytest

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.cli.arguments import new_parser, parse
from lockbuild.config import Config, apt, pip
from lockbuild.environment.compose import SOURCE_DATE_EPOCH
from lockbuild.errors import ExitStatus
from lockbuild.model.lock import Lock, Unpack
from lockbuild.model.manifest import ProjectFile, Toolchain
from lockbuild.model.read import validate
from lockbuild.workflow.schema import reached_models
from lockbuild.workflow.toolchains import read_toolchain, shipped_toolchains

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[tuple[str, str]]:
    """Code blocks of a language in any document: (document, text)."""
    return [
        (path.name, match[2])
        for path in DOCUMENTS
        for match in _FENCE.finditer(path.read_text(encoding="utf-8"))
        if match[1] == language
    ]


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `lockbuild …` line of a code block, and every one between backticks that has no placeholder."""
    for name, text in blocks("sh"):
        yield from ((name, line) for line in text.splitlines() if line.startswith("lockbuild "))
    for name, text in blocks("console"):
        yield from ((name, line[2:]) for line in text.splitlines() if line.startswith("$ lockbuild "))
    for path in DOCUMENTS:
        text = _FENCE.sub("", path.read_text(encoding="utf-8"))
        yield from (
            (path.name, found)
            for found in re.findall(r"`(lockbuild [^`]+)`", text)
            if not re.search(r"\b[A-Z]{3,}\b|…", found)
        )


COMMANDS = sorted(set(command_lines()))


def test_there_is_something_to_check() -> None:
    assert len(COMMANDS) > 15
    assert {"README.md", "CHANGELOG.md", "formats.md", "architecture.md", "security.md"} <= {
        path.name for path in DOCUMENTS
    }


@pytest.mark.parametrize(("document", "line"), COMMANDS)
def test_every_command_line_parses(document: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    assert parse(words[1:]).command == next(word for word in words[1:] if not word.startswith("-"))


def test_every_option_is_documented_somewhere() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    options = {option for command in commands(new_parser()) for option in command}
    # Said by --help alone: what needs no more words.
    by_help = {"--help", "--version", "--platform", "--target", "--output"}
    assert {option for option in options - by_help if option not in texts} == set()


def commands(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """The long options of the program and of each of its commands."""
    yield [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)


KEYS = sorted(
    {
        (inner.__name__, field.alias or name)
        for model in (ProjectFile, Toolchain, Lock, Config)
        for inner in reached_models(model)
        for name, field in inner.model_fields.items()
    }
)


@pytest.mark.parametrize(("model", "key"), KEYS)
def test_every_key_is_documented(model: str, key: str) -> None:
    """As `key` or at the end of a dotted key."""
    assert re.search(rf"`(?:\[{{0,2}})?(?:[A-Za-z.]+\.)?{re.escape(key)}\b[^`]*`", FORMATS), (
        f"{model}.{key} is not in docs/formats.md"
    )


def test_every_value_of_from_is_documented() -> None:
    values = {
        value
        for model in (ProjectFile, Toolchain)
        for inner in reached_models(model)
        if "from_" in inner.model_fields
        for value in get_args(inner.model_fields["from_"].annotation)
    }
    assert values
    assert {value for value in values if f'`"{value}"`' not in FORMATS} == set()
    assert {value for value in get_args(Unpack) if f"`{value}`" not in FORMATS} == set()


@pytest.mark.parametrize("name", ["README.md", "docs/formats.md"])
def test_every_exit_status_is_listed(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    section = text.partition("## Exit statuses")[2].partition("\n## ")[0]
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    assert listed == {int(status) for status in ExitStatus} | {70}


def test_every_environment_variable_is_listed() -> None:
    section = FORMATS.partition("## Environment variables")[2]
    for name in ("LOCKBUILD_STORE", "LOCKBUILD_CONFIG", "NO_COLOR", "DOCKER_HOST"):
        assert f"`{name}`" in section
    read = set()
    for path in (ROOT / "lockbuild").rglob("*.py"):
        read |= set(re.findall(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", path.read_text(encoding="utf-8")))
    assert len(read) > 10
    assert {name for name in read if f"`{name}`" not in section} == set()


@pytest.mark.parametrize(("document", "text"), blocks("toml"))
def test_every_toml_block_is_valid(document: str, text: str, tmp_path: Path) -> None:
    data = tomllib.loads(text)
    if "extends" in data:
        (tmp_path / "toolchain.toml").write_text(text)
        read_toolchain("./toolchain.toml", tmp_path, on=tmp_path, key="toolchain").toolchain()
    elif "schema" in data:
        validate(Toolchain, data, document)
    elif data.keys() & {field.alias or name for name, field in Config.model_fields.items()}:
        validate(Config, data, document)
    else:
        target = {"a": {"steps": ["true"], "outputs": ["a"]}}
        whole = {"project": {"name": "p", "toolchain": "t"}, "targets": target, **data}
        validate(ProjectFile, whole, document)


def anchors(path: Path) -> set[str]:
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if urlsplit(target).scheme:
            continue
        place, _, anchor = target.partition("#")
        file = (document.parent / place).resolve() if place else document
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_every_file_and_test_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:lockbuild|tests)/[\w./]+|\w+/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 25
    for name, test in named:
        places = [ROOT / name, ROOT / "tests" / name, ROOT / "lockbuild" / name]
        path = next((place for place in places if place.exists()), None)
        assert path is not None, name
        if test:
            assert f"def {test}(" in path.read_text(encoding="utf-8"), f"{name}::{test}"


def test_every_package_is_described() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "lockbuild").glob("*/__init__.py")}
    assert {name for name in packages if f"| `{name}` |" not in text} == set()


def test_the_names_that_the_architecture_tells_to_change_are_there() -> None:
    for file, name in (
        ("resolve/__init__.py", "_PROVIDERS"),
        ("fetch/run.py", "_KEEPERS"),
        ("environment/materialise.py", "UNPACKERS"),
        ("cli/verbs/__init__.py", "VERBS"),
        ("model/lock.py", "Unpack"),
    ):
        assert re.search(rf"^{name}\b", (ROOT / "lockbuild" / file).read_text("utf-8"), re.MULTILINE), name


def test_the_digests_of_trees_in_the_text_are_true(tmp_path: Path) -> None:
    assert str(tree_digest(tmp_path)) in FORMATS
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"hi\n")
    (tmp_path / "a" / "b").chmod(0o755)
    (tmp_path / "a-b").touch(0o644)
    (tmp_path / "l").symlink_to("a/b")
    tar = io.BytesIO()
    write_canonical_tar(tmp_path, tar)
    assert f"`{tree_digest(tmp_path)}` ({len(tar.getvalue())} bytes)" in FORMATS


def test_the_command_of_gnu_tar_gives_the_tree_digest(tmp_path: Path) -> None:
    script = next(text for name, text in blocks("sh") if name == "formats.md" and "sha256sum" in text)
    for name in ("a/b", "a-b", "x/y/z"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (tmp_path / "l").symlink_to("a/b")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == tree_digest(tmp_path).hex


def test_facts_of_the_sandbox_are_true() -> None:
    assert f"| `SOURCE_DATE_EPOCH` | {SOURCE_DATE_EPOCH} " in FORMATS
    for name in shipped_toolchains():
        assert f"`{name}`" in "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS) + FORMATS


def tracked_files() -> list[Path]:
    """The files of the tree: what git knows, or everything where the tree is no checkout."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        names = [name for name in done.stdout.decode().split("\0") if name]
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    left_out = {".venv", ".git", "__pycache__", ".lockbuild", "dist"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not left_out & set(path.parts)]


def registry_hosts() -> set[str]:
    """The host names that this machine is configured to get packages from; loopback is none."""
    urls = [*apt.archive_mirrors(), *pip.indexes()]
    service = apt.snapshot_service()
    if service is not None:
        urls.append(service)
    hosts = {urlsplit(url).hostname for url in urls} - {None, "localhost", "127.0.0.1", "::1"}
    return {host for host in hosts if host}


def test_no_registry_host_and_no_path_of_this_machine_is_in_the_tree() -> None:
    """Mirrors and indexes are configuration; a checkout or home in a file is somebody's accident."""
    hosts = registry_hosts()
    urls = [*apt.archive_mirrors(), *pip.indexes()]
    assert urls, "this machine is configured for no registry: then nothing is checked"
    assert hosts or all(urlsplit(url).scheme == "file" or "127." in url for url in urls)
    forbidden = {host.encode() for host in hosts} | {f"{ROOT}/".encode()}
    if Path.home() not in (Path("/"), Path("/root")):
        forbidden.add(f"{Path.home()}/".encode())
    files = tracked_files()
    assert len(files) > 200
    found = [
        (path.relative_to(ROOT).as_posix(), word.decode())
        for path in files
        for data in [path.read_bytes()]
        for word in forbidden
        if word in data
    ]
    assert found == []
