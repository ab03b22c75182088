"""emsdk's manifest: where archives are, and which Node.js a release has, in each shape that the file has had."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockbuild.errors import ResolveError
from lockbuild.resolve.emscripten import sdk_manifest
from lockbuild.resolve.emscripten.sdk_manifest import SdkManifest
from tests.support.emscripten import sdk_manifest as text_of

COMMIT = "c" * 40
BASE = "https://archive.test/builds"


def manifest(**data: Any) -> SdkManifest:
    return sdk_manifest.parse(json.dumps(data).encode(), "the manifest")


def test_a_manifest() -> None:
    found = sdk_manifest.parse(text_of(BASE).encode(), "the manifest")
    assert found.archive(COMMIT, "linux", "x86_64") == f"{BASE}/linux/{COMMIT}/wasm-binaries.tar.xz"
    assert found.archive(COMMIT, "linux", "arm64") == f"{BASE}/linux/{COMMIT}/wasm-binaries-arm64.tar.xz"
    assert found.archive(COMMIT, "win", "x86_64") is None
    assert (found.node(), found.node("mac"), found.node("win")) == ("22.16.0", "0.0.0", None)
    assert found.tool(COMMIT) == f"releases-{COMMIT}-64bit"


def test_the_shape_until_spring_2023() -> None:
    tool = {"id": "releases", "version": "upstream-%releases-tag%", "bitness": 64}
    linux = "https://x.test/linux/%releases-tag%/wasm-binaries"
    found = manifest(
        tools=[
            {"id": "releases", "version": "fastcomp-%releases-tag%", "linux_url": "https://x.test/fastcomp"},
            {**tool, "arch": "x86_64", "linux_url": f"{linux}.tbz2", "windows_url": "https://x.test/w.zip"},
            {**tool, "arch": "aarch64", "linux_url": f"{linux}-arm64.tbz2"},
        ],
        sdks=[
            {"version": "releases-upstream-%releases-tag%", "os": "linux", "uses": ["node-14.18.2-64bit"]},
            {"version": "releases-fastcomp-%releases-tag%", "os": "linux", "uses": ["node-1.0.0-64bit"]},
        ],
    )
    assert found.archive(COMMIT, "linux", "x86_64") == f"https://x.test/linux/{COMMIT}/wasm-binaries.tbz2"
    assert (
        found.archive(COMMIT, "linux", "arm64") == f"https://x.test/linux/{COMMIT}/wasm-binaries-arm64.tbz2"
    )
    assert found.archive(COMMIT, "win", "x86_64") == "https://x.test/w.zip"
    assert found.node() == "14.18.2"
    assert found.tool(COMMIT) == f"releases-upstream-{COMMIT}-64bit"


def test_the_shape_since_summer_2026() -> None:
    tool = {
        "id": "releases",
        "version": "%releases-tag%",
        "arch": "x86_64",
        "url_linux": "https://x.test/%releases-tag%",
    }
    sdk = {
        "version": "releases-%releases-tag%",
        "deps": ["node-1.2.3-64bit"],
        "deps_linux": ["node-24.19.0-64bit"],
    }
    found = manifest(tools=[tool], sdks=[sdk])
    assert found.archive(COMMIT, "linux", "x86_64") == f"https://x.test/{COMMIT}"
    assert (found.node(), found.node("mac")) == ("24.19.0", "1.2.3")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tools": 1, "sdks": None},
        {"tools": ["x", {"id": "releases"}], "sdks": [{"version": "releases-%releases-tag%", "os": "linux"}]},
        {"sdks": [{"version": "releases-%releases-tag%", "uses": ["node-nightly-64bit", 1]}]},
        {"tools": [{"id": "releases", "version": "%releases-tag%", "linux_url": 7, "bitness": 64}]},
        {"tools": [{"id": "releases", "version": "%releases-tag%", "linux_url": "https://x", "bitness": 32}]},
    ],
)
def test_what_it_does_not_say(data: dict[str, Any]) -> None:
    found = manifest(**data)
    assert found.archive(COMMIT, "linux", "x86_64") is None
    assert found.node() is None
    assert found.tool(COMMIT) == f"releases-{COMMIT}-64bit"


@pytest.mark.parametrize(
    "url", ["wasm.tar.xz", "ftp://x.test/a", "https://x.test/%tag%", "file:///etc/passwd"]
)
def test_a_url_that_is_none(url: str) -> None:
    found = manifest(tools=[{"id": "releases", "version": "%releases-tag%", "linux_url": url}])
    with pytest.raises(ResolveError, match="the URL of a release is"):
        found.archive(COMMIT, "linux", "x86_64")


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b"[" * 200_000, b" " * (sdk_manifest.LIMIT + 1)])
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ResolveError) as caught:
        sdk_manifest.parse(data, "the manifest")
    assert caught.value.on == "the manifest"
