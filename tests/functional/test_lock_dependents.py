"""What is locked after what: a port follows its Emscripten, and nothing else moves with it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emscripten import World, new_world, port
from tests.support.tiny import TinyWorld, tiny_world

TOOLS = """
[tools.zlib]
from = "port"
of = "emscripten"

[tools.emscripten]
from = "emsdk"
version = "4.0.19"
node = false

[tools.other]
from = "emsdk"
version = "<4.0.19"
node = false
mount = "/opt/other"
exports = { EMSDK = "/opt/emsdk", EM_CONFIG = "/opt/emsdk/.emscripten" }
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[TinyWorld, World]]:
    with tiny_world(tmp_path) as made:
        repositories = new_world(tmp_path)
        for version, pinned in (("4.0.18", "1.2"), ("4.0.19", "1.3"), ("4.0.20", "1.4")):
            repositories.release(version, ports={"zlib": port("zlib", pinned)})
        with made.config.open("a") as config:
            config.write(repositories.toml())
        with (made.project / "toolchain.toml").open("a") as toolchain:
            toolchain.write(TOOLS)
        yield made, repositories


def pins(world: TinyWorld) -> dict[str, str]:
    """Versions by tree."""
    lock = tomllib.loads((world.project / "lockbuild.lock").read_text())
    return {tree["name"]: tree["pins"]["version"] for tree in lock["trees"] if "pins" in tree}


def test_a_port_is_locked_after_its_emscripten_wherever_it_stands(world: tuple[TinyWorld, World]) -> None:
    tiny, _ = world
    tiny.run("lock")
    assert pins(tiny) == {"tools.emscripten": "4.0.19", "tools.other": "4.0.18", "tools.zlib": "1.3"}


def test_what_depends_on_a_changed_tree_is_locked_again_and_nothing_else(
    world: tuple[TinyWorld, World],
) -> None:
    tiny, repositories = world
    tiny.run("lock")
    # By now there is a newer one for `other`, if that were locked again without need.
    repositories.release("4.0.18.1", ports={"zlib": port("zlib", "9")})
    tiny.edit("toolchain.toml", 'version = "4.0.19"', 'version = "4.0.20"')
    tiny.run("lock")
    assert pins(tiny) == {"tools.emscripten": "4.0.20", "tools.other": "4.0.18", "tools.zlib": "1.4"}


def test_upgrading_shows_every_derived_pin(world: tuple[TinyWorld, World]) -> None:
    tiny, repositories = world
    tiny.edit("toolchain.toml", 'version = "4.0.19"', 'version = ">4.0.18"')
    repositories.release("4.0.21", ports={"zlib": port("zlib", "1.5")})
    tiny.run("lock")
    before = (tiny.project / "lockbuild.lock").read_text()
    repositories.release("4.0.22", ports={"zlib": port("zlib", "1.6")})
    text = tiny.run("lock", "--upgrade", "emscripten", "--dry-run").out
    assert "tools.emscripten: version" in text
    rows = {tuple(part.strip() for part in line.split("  ") if part.strip()) for line in text.splitlines()}
    assert ("tools.emscripten: version", "4.0.21", "->", "4.0.22") in rows
    assert ("tools.zlib: version", "1.5", "->", "1.6") in rows
    assert "tools.other" not in text
    changes = tiny.run("lock", "--upgrade", "emscripten", "--dry-run", "--json").value["changes"]
    by_name = {change["name"]: (change["old"], change["new"]) for change in changes}
    assert by_name["tools.emscripten: release"][0] != by_name["tools.emscripten: release"][1]
    assert by_name["tools.zlib: emscripten"] == ("4.0.21", "4.0.22")
    assert (tiny.project / "lockbuild.lock").read_text() == before


def test_an_upgrade_that_leaves_the_sdk_as_it_is_asks_nothing_of_the_port(
    world: tuple[TinyWorld, World],
) -> None:
    tiny, repositories = world
    tiny.run("lock")
    before = pins(tiny)
    repositories.emscripten.tag(
        "4.0.19", repositories.emscripten.commit({"tools/ports/zlib.py": port("zlib", "6")})
    )
    tiny.run("lock", "--upgrade", "other")
    assert pins(tiny) == before
