"""A small checkout laid out as ONNX Runtime's, whose build takes its archives from `mirror/`."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_server import new_repository
from tests.support.tiny import TinyWorld, tiny_world

PROJECT = """\
[project]
name = "ort"
toolchain = "./toolchain.toml"

[sources.deps]
from = "onnxruntime-deps"

[targets.ort]
steps = ["cd /build/sources/deps; find . -type f | sort | xargs sha256sum > $BUILD/mirror.txt"]
outputs = ["mirror.txt"]
"""
ARCHIVES = {"one/v1.zip": b"the first archive", "two/archive/refs/tags/v2.tar.gz": b"the second"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        for path, data in ARCHIVES.items():
            made.server.files[f"/{path}"] = data
        (made.project / "lockbuild.toml").write_text(PROJECT)
        (made.project / "cmake").mkdir()
        (made.project / "cmake" / "deps.txt").write_text(deps(made))
        yield made


def deps(world: TinyWorld, **others: str) -> str:
    lines = [
        f"{path[:3]};{world.server.url}/{path};{others.get(path[:3]) or hashlib.sha1(data).hexdigest()}"
        for path, data in ARCHIVES.items()
    ]
    return "\n".join(["# name;url;sha1", *lines, ""])


def sources(world: TinyWorld) -> dict[str, dict[str, Any]]:
    lock = tomllib.loads((world.project / "lockbuild.lock").read_text())
    return {source["at"]: source for source in lock["sources"] if "at" in source}


def test_archives_are_locked_and_laid_out_as_the_mirror(world: TinyWorld) -> None:
    told = world.run("lock").err
    assert "nobody publishes more than the SHA-1 of 2 archives" in told
    host = world.server.url.partition("://")[2]
    found = sources(world)
    assert sorted(found) == sorted(f"{host}/{path}" for path in ARCHIVES)
    for path, data in ARCHIVES.items():
        source = found[f"{host}/{path}"]
        assert source["sha256"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert source["trust"] == "first-use"
        assert source["size"] == len(data)
    world.server.files.clear()
    world.archive.upload(world.server)
    world.run("build")
    lines = (world.project / "dist" / "mirror.txt").read_text().splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == sorted(f"./{host}/{path}" for path in ARCHIVES)
    assert {line.split()[0] for line in lines} == {
        hashlib.sha256(data).hexdigest() for data in ARCHIVES.values()
    }


def test_another_archive_than_the_file_means_is_refused(world: TinyWorld) -> None:
    (world.project / "cmake" / "deps.txt").write_text(deps(world, one="f" * 40))
    error = world.run("lock", status=5).err
    assert hashlib.sha1(ARCHIVES["one/v1.zip"]).hexdigest() in error
    assert "f" * 40 in error


def test_a_changed_file_is_stale_and_only_what_it_changes_is_downloaded(world: TinyWorld) -> None:
    world.run("lock")
    world.run("sync")
    file = world.project / "cmake" / "deps.txt"
    world.server.files["/three.zip"] = b"three"
    file.write_text(
        f"{file.read_text()}three;{world.server.url}/three.zip;{hashlib.sha1(b'three').hexdigest()}\n"
    )
    assert "cmake/deps.txt" in world.run("lock", "--check", status=1).out
    assert "cmake/deps.txt" in world.run("sync", status=1).err
    before = len(world.server.paths())
    world.run("lock")
    assert world.server.paths()[before:] == ["/three.zip"]
    assert len(sources(world)) == 3
    # The same URL with another digest is another archive.
    other = b"the first archive, made anew"
    world.server.files["/one/v1.zip"] = other
    file.write_text(deps(world, one=hashlib.sha1(other).hexdigest()))
    world.run("lock")
    assert f"sha256:{hashlib.sha256(other).hexdigest()}" in {
        source["sha256"] for source in sources(world).values()
    }


def test_the_file_of_a_checkout_that_is_a_source(world: TinyWorld, tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "onnxruntime.git")
    repository.tag("v1", repository.commit({"cmake/deps.txt": deps(world)}))
    world.edit("lockbuild.toml", 'from = "onnxruntime-deps"', 'from = "onnxruntime-deps"\nof = "ort"')
    with (world.project / "lockbuild.toml").open("a") as manifest:
        manifest.write(f'\n[sources.ort]\nfrom = "git"\nurl = "{repository.url}"\nrev = "v1"\n')
    (world.project / "cmake" / "deps.txt").unlink()
    world.run("lock")
    assert len(sources(world)) == 2
    repository.tag("v1", repository.commit({"cmake/deps.txt": deps(world).partition("two;")[0]}))
    world.run("lock", "--upgrade", "ort")
    assert len(sources(world)) == 1
    world.run("build")


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ("nothing", "sources.deps.of: 'nothing' is no source with from = \"git\""),
        ("deps", "'deps' is no source"),
    ],
)
def test_references_that_lead_nowhere(world: TinyWorld, of: str, told: str) -> None:
    world.edit("lockbuild.toml", 'from = "onnxruntime-deps"', f'from = "onnxruntime-deps"\nof = "{of}"')
    assert told in world.run("lock", status=2).err


def test_no_such_file(world: TinyWorld) -> None:
    (world.project / "cmake" / "deps.txt").unlink()
    assert "deps.txt cannot be read: No such file or directory" in world.run("lock", status=2).err
