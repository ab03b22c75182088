"""Ports that a port needs: trees of their own beside it, which the manifest does not name."""

from __future__ import annotations

from typing import Any

import pytest

from lockbuild.errors import InvalidFileError
from lockbuild.model.belonging import misfits
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedTree, ManifestRecord, Source
from lockbuild.model.lockfile import dumps, loads
from lockbuild.model.manifest import Manifest, ProjectFile, Toolchain
from lockbuild.model.platform import Platform
from lockbuild.model.read import validate
from lockbuild.model.soundness import inputs_digest

PORTS = "/opt/emscripten-ports"


def manifest(**tools: dict[str, Any]) -> Manifest:
    toolchain = {
        "schema": 1,
        "name": "t",
        "platforms": ["linux/amd64"],
        "base": {"debian": {"suite": "forky"}},
        "tools": tools,
    }
    project = {
        "project": {"name": "p", "toolchain": "t"},
        "targets": {"t": {"steps": ["true"], "outputs": ["a"]}},
    }
    return Manifest(
        project=validate(ProjectFile, project, "lockbuild.toml"),
        toolchain=validate(Toolchain, toolchain, "toolchain.toml"),
    )


def port(name: str, mount: str, **more: Any) -> LockedTree:
    return LockedTree(name=name, platform="any", unpack="port", mount=mount, **more)


def lock(*trees: LockedTree) -> Lock:
    base = LockedTree(name="base", platform=Platform("linux", "amd64"), unpack="debian-root", mount="/")
    everything = [base, *trees]
    source = Source(
        purl="pkg:generic/x@1",
        url="https://archive.test/x.zip",
        sha256=Digest.of(b"x"),
        trees=[tree.id for tree in everything],
    )
    return Lock(
        manifest=ManifestRecord(digest=inputs_digest({"name": "t"}), inputs={"name": "t"}),
        trees=everything,
        sources=[source],
    )


def test_default_places() -> None:
    found = manifest(
        sdk={"from": "emsdk", "version": "latest"},
        zlib={"from": "port"},
        glfw={"from": "port", "port": "contrib.glfw3"},
        png={"from": "port", "port": "libpng", "mount": "/opt/ports/libpng"},
    )
    assert dict(found.toolchain.mounts()) == {
        "tools.sdk": "/opt/emsdk",
        "tools.zlib": f"{PORTS}/zlib",
        "tools.glfw": f"{PORTS}/contrib.glfw3",
        "tools.png": "/opt/ports/libpng",
    }


def test_a_port_is_one_tool_only() -> None:
    with pytest.raises(InvalidFileError, match="is also the mount of tools.zlib"):
        manifest(zlib={"from": "port"}, z={"from": "port", "port": "zlib"})


def test_trees_of_needed_ports_belong_to_the_tool() -> None:
    trees = (
        port("tools.libpng", f"{PORTS}/libpng", exports={"EM_PORTS": PORTS}),
        port("tools.libpng+zlib", f"{PORTS}/zlib"),
    )
    found = lock(*trees)
    assert misfits(found, manifest(libpng={"from": "port"})) == []
    assert [tree.belongs_to("tools.libpng") for tree in found.trees] == [False, True, True]
    text = dumps(found)
    assert dumps(loads(text, "a.lock")) == text


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        (port("tools.libpng+zlib", f"{PORTS}/other"), "has the mount"),
        (port("tools.libpng+zlib", "/opt/zlib"), "has the mount"),
        (port("tools.libpng+zlib", f"{PORTS}/zlib", exports={"PATH": "/x"}), "has other exports"),
        (port("tools.sdl2+zlib", f"{PORTS}/zlib"), "nothing asks for any:tools.sdl2+zlib"),
    ],
)
def test_what_does_not_belong_is_laid_at_the_tool_s_door(tree: LockedTree, what: str) -> None:
    wrong = misfits(lock(port("tools.libpng", f"{PORTS}/libpng"), tree), manifest(libpng={"from": "port"}))
    assert [misfit.name for misfit in wrong] == [tree.name.partition("+")[0]]
    assert what in wrong[0].what


def test_only_ports_bring_others_along() -> None:
    tree = LockedTree(name="tools.cmake+ninja", platform="any", unpack="archive", mount="/opt/ninja")
    with pytest.raises(InvalidFileError, match="is not of the kind 'archive'"):
        loads(dumps(lock(tree)), "a.lock")
