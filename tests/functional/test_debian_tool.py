"""Debian packages as tools apart from the base: locked, built with, and lived in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.config import load
from lockbuild.environment.compose import compose
from lockbuild.environment.materialise import materialise
from lockbuild.events import silent
from lockbuild.fetch import Fetcher
from lockbuild.model.environment import SandboxSpec
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase, DebianTool
from lockbuild.resolve import ResolveContext, resolve
from lockbuild.sandbox.bubblewrap import Bubblewrap
from lockbuild.store import Store
from lockbuild.transport.http import Http
from tests.support.sandboxes import shell
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

SCRIPT = "#!/bin/sh\ncat /opt/cow/usr/share/cow/words /opt/cow/usr/share/cow/alias\n"
TOOL = '\n[tools.cow]\nfrom = "debian"\nsuite = "forky"\npackages = ["cow"]\n'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    """The tiny world with a tool of two packages; the second needs what the base has, too."""
    with tiny_world(tmp_path) as made:
        made.archive.add("cow", depends="libcow1, greeting, busybox", contents={"usr/bin/cow": SCRIPT})
        made.archive.add(
            "libcow1",
            architecture=PLATFORM.debian_architecture,
            contents={"usr/share/cow/words": "moo\n"},
            links={"usr/share/cow/alias": "/usr/share/cow/words"},
        )
        made.publish()
        with (made.project / "toolchain.toml").open("a") as file:
            file.write(TOOL)
        made.edit("lockbuild.toml", "cat $WORDS $SOURCE/main.txt", "cow")
        yield made


def test_from_manifest_to_build(world: TinyWorld) -> None:
    world.run("lock", "--materialise")
    text = (world.project / "lockbuild.lock").read_text()
    assert 'unpack = "debian-tool"' in text
    libraries = f"$OUT/usr/lib/{PLATFORM.machine}-linux-gnu:$OUT/usr/lib"
    assert f'exports = {{ LD_LIBRARY_PATH = "{libraries}", PATH = "$OUT/usr/bin:$OUT/usr/sbin" }}' in text
    world.run("lock", "--check")
    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "moo\nmoo\n"
    for source in text.split("[[sources]]")[1:]:
        owner = "tools.cow" if "cow" in source.partition("path =")[0] else "base"
        assert f'trees = ["{PLATFORM}:{owner}"]' in source


def test_a_base_of_another_state_of_the_suite(world: TinyWorld) -> None:
    world.edit("toolchain.toml", TOOL, "")
    world.run("lock")
    world.archive.add("greeting", "2.0", contents={"usr/share/greeting": "hello\n"})
    world.archive.add("calf", depends="greeting (>= 2.0)", contents={"usr/bin/calf": "#!/bin/sh\n"})
    world.publish()
    with (world.project / "toolchain.toml").open("a") as file:
        file.write(TOOL.replace('"cow"', '"calf"'))
    failed = world.run("lock", status=2)
    assert "tools.cow" in failed.err
    assert "greeting" in failed.err
    world.run("lock", "--upgrade", "base")


@pytest.mark.slow
@pytest.mark.network
def test_real_packages_in_a_base_that_has_not_what_they_need(tmp_path: Path) -> None:
    amd64 = Platform.parse("linux/amd64")
    store, config = Store(tmp_path / "store"), load(os.environ)
    with Http(config) as http:
        context = ResolveContext(
            http=http, config=config, store=store, now=datetime.now(UTC), project=tmp_path, allow_expired=True
        )
        base = resolve("base", DebianBase.model_validate({"suite": "forky"}), [amd64], context)
        context = replace(context, resolved={"base": base})
        found = [base]
        for name in ("jq", "wabt"):
            request = DebianTool.model_validate({"from": "debian", "suite": "forky", "packages": [name]})
            found.append(resolve(f"tools.{name}", request, [amd64], context))
            purls = [source.purl.partition("@")[0] for source in found[-1].sources]
            assert f"pkg:deb/debian/{name}" in purls
            assert "pkg:deb/debian/libc6" not in purls
        sources = [source for resolution in found for source in resolution.sources]
        Fetcher(store, http, config, suites=base.suites).fetch(sources)
    trees = [
        (tree, materialise(store, tree, list(resolution.sources), report=silent))
        for resolution in found
        for tree in resolution.trees
    ]
    environment = compose(store, amd64, trees)
    with Bubblewrap(tmp_path / "scratch").session(SandboxSpec(environment=environment)) as session:
        status, said = shell(session, "echo '{\"a\": [1, 2]}' | jq -c .a; command -v jq")
        assert (status, said) == (0, "[1,2]\n/opt/jq/usr/bin/jq\n")
        status, said = shell(
            session,
            "echo '(module (func (export \"f\")))' > m.wat && wat2wasm m.wat && wasm-objdump -x m.wasm",
        )
        assert status == 0, said
        assert "func[0]" in said
