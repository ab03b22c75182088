"""Combinations that cannot work, or may disappoint: found by what a lock has, each with one clear message."""

from __future__ import annotations

from typing import Any

import pytest

from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.manifest import Manifest, ProjectFile, Toolchain
from lockbuild.model.platform import Platform
from lockbuild.resolve import Resolution
from lockbuild.resolve.consistency import Finding, findings

AMD, ARM = Platform.parse("linux/amd64"), Platform.parse("linux/arm64")
A, B = "a" * 40, "b" * 40
SDK = "https://storage.test/emscripten-releases-builds"


def manifest(
    steps: list[str], *, env: dict[str, str] | None = None, derive: dict[str, Any] | None = None
) -> Manifest:
    project = {
        "project": {"name": "p", "toolchain": "t"},
        "targets": {"t": {"steps": steps, "outputs": ["a"], "env": env or {}}},
    }
    toolchain = {
        "schema": 1,
        "name": "t",
        "platforms": [AMD],
        "base": {"debian": {"suite": "forky"}},
        "derive": derive or {},
    }
    return Manifest(
        project=ProjectFile.model_validate(project), toolchain=Toolchain.model_validate(toolchain)
    )


def source(
    purl: str, tree: str, *, url: str | None = None, commit: str | None = None, at: str | None = None
) -> Source:
    sha256 = None if commit else Digest.of(purl.encode())
    return Source(
        purl=purl, path=None if url else "f", url=url, sha256=sha256, commit=commit, at=at, trees=[tree]
    )


def base(*purls: str, platforms: tuple[Platform, ...] = (AMD,)) -> Resolution:
    trees = tuple(LockedTree(name="base", platform=p, unpack="debian-root", mount="/") for p in platforms)
    return Resolution(trees, tuple(source(purl, trees[0].id) for purl in purls))


def tool(unpack: str, *sources: Source, name: str = "x", **pins: str) -> Resolution:
    tree = LockedTree.model_validate(
        {"name": f"tools.{name}", "platform": "any", "unpack": unpack, "mount": f"/opt/{name}", "pins": pins}
    )
    return Resolution((tree,), sources)


def emsdk(version: str) -> Resolution:
    return tool(
        "emsdk", source("pkg:generic/emscripten@1", "any:tools.x", url="https://a/b"), emscripten=version
    )


PORT = tool("port", source("pkg:generic/p@1", "any:tools.x", url="https://a/p.zip"), dawn=A)
DEBIAN_EMSCRIPTEN = "pkg:deb/debian/emscripten@6.0.5%2Bdfsg%2B~1.41.5-2?arch=all&distro=forky"


def found(
    resolved: dict[str, Resolution], made: Manifest | None = None, listing: str | None = None
) -> list[Finding]:
    made = made or manifest(["true"])
    listings = {} if listing is None else {"t": listing}
    return list(findings(made, {"base": base(), **resolved}, listings))


# SDK archives


@pytest.mark.parametrize(
    ("path", "platforms", "told"),
    [
        ("linux/{}/wasm-binaries.tar.xz", (AMD,), None),
        ("linux/{}/wasm-binaries-arm64.tar.xz", (ARM,), None),
        ("linux/{}/wasm-binaries.tar.xz", (ARM,), "is the SDK for linux/amd64, not for linux/arm64"),
        ("linux/{}/wasm-binaries-arm64.tar.xz", (AMD,), "is the SDK for linux/arm64, not for linux/amd64"),
        (
            "linux/{}/wasm-binaries.tar.xz",
            (AMD, ARM),
            "for linux/amd64, and the lock is for linux/arm64, too",
        ),
        ("mac/{}/wasm-binaries-arm64.tar.xz", (ARM,), "is the SDK for mac/arm64, not for linux/arm64"),
        ("win/{}/wasm-binaries.zip", (AMD,), "is the SDK for win/amd64, not for linux/amd64"),
        ("linux/{}/other.tar.xz", (ARM,), None),
    ],
)
def test_an_sdk_archive_for_another_machine(
    path: str, platforms: tuple[Platform, ...], told: str | None
) -> None:
    url = f"{SDK}/{path.format(A)}"
    archive = tool("archive", source("pkg:generic/sdk@1", "any:tools.x", url=url))
    result = found({"base": base(platforms=platforms), "tools.x": archive})
    assert [(item.key, item.refused) for item in result] == ([("tools.x", True)] if told else [])
    if told:
        assert told in result[0].message
        assert url in result[0].message
        assert 'from = "emsdk"' in result[0].hint


# Two Dawns


@pytest.mark.parametrize(
    "other",
    [
        source("pkg:generic/dawn@1", "any:tools.y", url="https://dawn.googlesource.com/dawn", commit=B),
        source("pkg:github/google/dawn@1", "any:tools.y", url="https://github.com/google/dawn.git", commit=B),
        source(
            "pkg:github/google/dawn@1",
            "any:tools.y",
            url="https://dawn.googlesource.com/dawn",
            commit=B,
            at="third_party/dawn",
        ),
        source("pkg:generic/x", "any:tools.y", url=f"https://github.com/google/dawn/archive/{B}.zip"),
        source("pkg:generic/x", "any:tools.y", url=f"https://dawn.googlesource.com/dawn/+archive/{B}.tar.gz"),
    ],
)
def test_the_halves_of_the_bindings_are_of_one_dawn(other: Source) -> None:
    (finding,) = found({"tools.x": PORT, "sources.dawn": tool("git", other, name="y")})
    assert finding.refused
    assert finding.key == "sources.dawn"
    assert "Dawn bbbbbbbbbbbb" in finding.message
    assert "tools.x is of Dawn aaaaaaaaaaaa" in finding.message
    assert ("third_party/dawn" in finding.message) == (other.at is not None)
    assert 'from = "dawn" with of = "x"' in finding.hint


def test_the_same_dawn_and_what_is_no_dawn_are_fine() -> None:
    same = source("pkg:generic/dawn@1", "any:tools.y", url="https://dawn.googlesource.com/dawn", commit=A)
    like = source("pkg:generic/dawn@1", "any:tools.z", url="https://github.com/google/dawn-tools", commit=B)
    release = source(
        "pkg:generic/p", "any:tools.x", url="https://github.com/google/dawn/releases/download/v1/p.zip"
    )
    port = tool("port", release, dawn=A)
    assert found({"tools.x": port, "tools.y": tool("git", same), "tools.z": tool("git", like)}) == []
    assert found({"tools.y": tool("git", same.model_copy(update={"commit": B}))}) == []


def test_onnxruntime_beside_the_port_is_told() -> None:
    url = "https://github.com/microsoft/onnxruntime"
    ort = tool("git", source("pkg:github/microsoft/onnxruntime@1", "any:tools.y", url=url, commit=B))
    (finding,) = found({"tools.x": PORT, "sources.onnxruntime": ort})
    assert not finding.refused
    assert "patched Dawn of its own" in finding.message
    assert found({"sources.onnxruntime": ort}) == []


# CMake


def cmake(version: str) -> Resolution:
    return tool("wheels", source(f"pkg:pypi/cmake@{version}", "any:tools.x"))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("cmake_minimum_required(VERSION 3.4)\n", "3.4"),
        ("# a comment\n  CMAKE_MINIMUM_REQUIRED (VERSION 2.8.12 FATAL_ERROR)\n", "2.8.12"),
        ("cmake_minimum_required(VERSION 2.8...3.4)\n", "3.4"),
        ("cmake_minimum_required(\n  VERSION 3.1)\n", "3.1"),
        ("cmake_minimum_required(VERSION 3.5)\n", None),
        ("cmake_minimum_required(VERSION 3.10)\n", None),
        ("cmake_minimum_required(VERSION 2.8...3.30)\n", None),
        ("# cmake_minimum_required(VERSION 2.8)\n", None),
        ("project(x)\n", None),
    ],
)
def test_cmake_4_and_projects_of_before(text: str, asked: str | None) -> None:
    made = manifest(["emcmake cmake -S $SOURCE -B $BUILD"])
    result = found({"tools.x": cmake("4.1.2")}, made, text)
    assert len(result) == (0 if asked is None else 1)
    for finding in result:
        assert not finding.refused
        assert finding.key == "targets.t"
        assert f"asks for CMake {asked}, and CMake 4.1.2 (tools.x)" in finding.message
        assert "-DCMAKE_POLICY_VERSION_MINIMUM=3.5" in finding.hint
        assert "cmake<4" in finding.hint
    assert found({"tools.x": cmake("3.31.10")}, made, text) == []


def test_who_has_the_remedy_or_no_cmake_hears_nothing() -> None:
    old = "cmake_minimum_required(VERSION 2.8)"
    for made in (
        manifest(["cmake -DCMAKE_POLICY_VERSION_MINIMUM=3.5 ."]),
        manifest(["cmake ."], env={"CMAKE_POLICY_VERSION_MINIMUM": "3.5"}),
        manifest(["make"]),
    ):
        assert found({"tools.x": cmake("4.0.0")}, made, old) == []


def test_the_cmake_of_a_tool_comes_before_that_of_the_base() -> None:
    old, made = "cmake_minimum_required(VERSION 2.8)", manifest(["cmake ."])
    debian = base("pkg:deb/debian/cmake@1:4.2.1-3?arch=amd64")
    assert found({"base": debian, "tools.x": cmake("3.31.0")}, made, old) == []
    (finding,) = found({"base": debian}, made, old)
    assert "CMake 4.2.1 (base)" in finding.message


# Compilers that vary


@pytest.mark.parametrize(
    ("resolved", "compiler"),
    [
        ({"tools.x": emsdk("4.0.19")}, "Emscripten 4.0.19"),
        ({"tools.x": emsdk("6.0.2")}, "Emscripten 6.0.2"),
        ({"tools.x": emsdk("6.0.3")}, None),
        ({"tools.x": emsdk("7.0.0")}, None),
        ({"base": base(DEBIAN_EMSCRIPTEN, "pkg:deb/debian/clang-21@1:21.1.8-13?arch=amd64")}, "clang 21.1.8"),
        ({"base": base(DEBIAN_EMSCRIPTEN, "pkg:deb/debian/clang-23@1:23.1.0-1?arch=amd64")}, None),
        ({"base": base("pkg:deb/debian/clang-19@1:19.1.7-3?arch=amd64")}, None),
        ({}, None),
    ],
)
def test_wasm_exceptions_with_a_compiler_that_varies(
    resolved: dict[str, Resolution], compiler: str | None
) -> None:
    for made in (
        manifest(["em++ -fwasm-exceptions a.cpp"]),
        manifest(["make"], env={"CXXFLAGS": "-O2 -fwasm-exceptions"}),
        manifest(["make"], derive={"t": {"steps": ["em++ -fwasm-exceptions a.cpp"]}}),
    ):
        result = found(resolved, made)
        assert len(result) == (0 if compiler is None else 1)
        for finding in result:
            assert not finding.refused
            assert finding.key in ("targets.t", "derive.t")
            assert f"{compiler} may give other bytes from run to run" in finding.message
            assert "--backend bubblewrap" in finding.hint
            assert "reproduce --twice" in finding.hint
    assert found(resolved, manifest(["em++ -fexceptions a.cpp"])) == []
    in_cmake = found(resolved, manifest(["cmake ."]), "add_compile_options(-fwasm-exceptions)")
    assert len(in_cmake) == (0 if compiler is None else 1)
