"""A tool generated from a git source: bindings that a generator of our own makes, as Dawn's makes emdawnwebgpu.

The source is a repository that stands in for Dawn's, at the release that the environment's Emscripten pins: by a
package of that name in the base, and a repository that stands in for Emscripten's. No archive of the port is served.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.emscripten import EMSCRIPTEN, remote_port
from tests.support.git_server import GitServer, Repository, serving_git
from tests.support.tiny import TinyWorld

pytestmark = pytest.mark.slow

DAWN = "https://dawn.googlesource.com/dawn"
GENERATE = """\
#!/bin/sh -e
# Usage: generate OUT. Makes both halves of the bindings from the table of functions.
here=$(dirname "$0")
mkdir -p "$1/include"
while read -r name arity; do
    echo "int emwgpu$name(); /* $arity */" >> "$1/include/webgpu.h"
    echo "  emwgpu$name: $(cat "$here/text/$arity")," >> "$1/library_webgpu.js"
done < "$here/functions"
"""
TOOLS = """
[tools.dawn]
from = "dawn"
submodules = ["text"]
exclude = ["test/conformance"]

[derive.emdawnwebgpu]
steps = ["cp -r /opt/dawn src", "test ! -e src/test/conformance", "src/generate $OUT"]
"""
PROJECT = """\
[project]
name = "compute"
toolchain = "./toolchain.toml"

[targets.compute]
steps = ["cat /opt/emdawnwebgpu/include/webgpu.h /opt/emdawnwebgpu/library_webgpu.js > both.txt"]
outputs = ["both.txt"]
"""
BOTH = """\
int emwgpuCreate(); /* one */
int emwgpuDelete(); /* one */
  emwgpuCreate: x => x,
  emwgpuDelete: x => x,
"""


@dataclass
class Workshop:
    world: TinyWorld
    dawn: Repository
    commit: str

    def lock(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Lock it; the trees by name."""
        self.world.run("lock", *arguments)
        text = (self.world.project / "lockbuild.lock").read_text()
        return {tree["name"]: tree for tree in tomllib.loads(text)["trees"]}


@pytest.fixture
def workshop(forked: TinyWorld, tmp_path: Path) -> Iterator[Workshop]:
    world = forked
    world.config = Path(shutil.copy(world.config, tmp_path / "config.toml"))
    (world.project / "lockbuild.lock").unlink()
    server: GitServer
    with serving_git(tmp_path / "served") as server:
        world.archive.add("emscripten", "6.0.5~dfsg-1", contents={"usr/share/emscripten": "x"})
        world.publish()
        emscripten, dawn, text = map(server.repository, ("emscripten", "dawn", "text"))
        port = {"tools/ports/emdawnwebgpu.py": remote_port("emdawnwebgpu", "v2")}
        emscripten.tag("6.0.5", emscripten.commit(port))
        arities = text.commit({"one": "x => x\n"})
        files = {
            "generate": GENERATE,
            "functions": "Create one\n",
            "test/conformance/data": "large\n",
        }
        links = {"text": ("../text", arities), "third_party/unwanted": ("../nothing", "ab" * 20)}
        dawn.tag("v1", dawn.commit(files, executable=("generate",), submodules=links))
        commit = dawn.commit({"functions": "Create one\nDelete one\n"})
        dawn.tag("v2", commit)
        with world.config.open("a") as config:
            for prefix, name in ((EMSCRIPTEN, "emscripten"), (DAWN, "dawn")):
                config.write(f'[[mirrors]]\nprefix = "{prefix}"\nto = ["{server.url}/{name}"]\n')
            config.write(f'[[mirrors]]\nprefix = "{DAWN.rpartition("/")[0]}"\nto = ["{server.url}"]\n')
        world.edit("toolchain.toml", '"greeting"]', '"greeting", "emscripten"]')
        toolchain = world.project / "toolchain.toml"
        toolchain.write_text(toolchain.read_text() + TOOLS)
        (world.project / "lockbuild.toml").write_text(PROJECT)
        yield Workshop(world, dawn, commit)


def test_made_twice_it_is_the_same_tree(workshop: Workshop, tmp_path: Path) -> None:
    world = workshop.world
    trees = workshop.lock("--materialise")
    assert trees["tools.dawn"]["pins"] == {
        "tag": "v2",
        "ref": "refs/tags/v2",
        "emscripten": "6.0.5",
        "commit": workshop.commit,
    }
    digest = trees["derive.emdawnwebgpu"]["digest"]
    world.run("build")
    assert (world.project / "dist" / "both.txt").read_text() == BOTH
    # Another store knows nothing: there it is made again, to what the lock says.
    fresh = tmp_path / "fresh"
    synced = world.run("sync", "--json", store=fresh).value
    assert "derive.emdawnwebgpu" in synced["made"]
    assert digest in synced["trees"].values()
    assert world.run("sync", "--json", store=fresh).value["made"] == []


def test_another_release_is_another_tool(workshop: Workshop) -> None:
    before = workshop.lock("--materialise")
    workshop.world.edit("toolchain.toml", 'from = "dawn"', 'from = "dawn"\nversion = "v1"')
    assert "digest" not in workshop.lock()["derive.emdawnwebgpu"]
    after = workshop.lock("--materialise")
    assert after["tools.dawn"]["pins"]["tag"] == "v1"
    assert after["derive.emdawnwebgpu"]["digest"] != before["derive.emdawnwebgpu"]["digest"]
    workshop.world.run("build")
    assert "Delete" not in (workshop.world.project / "dist" / "both.txt").read_text()


def test_a_generator_that_is_not_deterministic_is_found(workshop: Workshop, tmp_path: Path) -> None:
    uuid = "$(cat /proc/sys/kernel/random/uuid)"
    commit = workshop.dawn.commit(
        {"generate": f'{GENERATE}echo "// {uuid}" >> "$1/library_webgpu.js"\n'}, executable=("generate",)
    )
    workshop.dawn.tag("v2", commit)
    recorded = workshop.lock("--materialise")["derive.emdawnwebgpu"]["digest"]
    told = workshop.world.run("sync", store=tmp_path / "fresh", status=5).err
    assert "derive.emdawnwebgpu" in told
    assert f"but the lock records {recorded}" in told
    assert "the derived tool came out as sha256:" in told
