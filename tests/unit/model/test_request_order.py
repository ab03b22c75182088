"""What is resolved after what, and references that lead nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.errors import InvalidFileError
from lockbuild.model.manifest import Manifest, ProjectFile, Toolchain
from lockbuild.model.read import validate

EMSDK = {"from": "emsdk", "version": "4.0.19"}
PORT = {"from": "port"}
DAWN = {"from": "dawn"}
PYPI = {"from": "pypi", "requirement": "ninja"}


def toolchain(**tools: dict[str, Any]) -> Toolchain:
    data = {
        "schema": 1,
        "name": "t",
        "platforms": ["linux/amd64"],
        "base": {"debian": {"suite": "forky"}},
        "tools": tools,
    }
    return validate(Toolchain, data, "toolchain.toml")


def manifest(tools: dict[str, Any], sources: dict[str, Any] | None = None) -> Manifest:
    data = {
        "project": {"name": "p", "toolchain": "t"},
        "targets": {"t": {"steps": ["true"], "outputs": ["a"]}},
        "sources": sources or {},
    }
    return Manifest(project=validate(ProjectFile, data, "lockbuild.toml"), toolchain=toolchain(**tools))


def test_a_port_comes_after_its_sdk_and_dawn_after_the_port() -> None:
    found = manifest({"dawn": DAWN, "emdawnwebgpu": PORT, "emscripten": EMSDK})
    assert list(found.requests()) == ["base", "tools.emscripten", "tools.emdawnwebgpu", "tools.dawn"]


@pytest.mark.parametrize(
    ("dawn", "others", "needs"),
    [
        ({}, {}, ("base",)),
        ({}, {"emscripten": EMSDK}, ("tools.emscripten",)),
        ({}, {"emscripten": EMSDK, "webgpu": {**PORT, "port": "emdawnwebgpu"}}, ("tools.webgpu",)),
        ({}, {"emscripten": EMSDK, "zlib": PORT}, ("tools.emscripten",)),
        ({"of": "emscripten"}, {"emscripten": EMSDK, "emdawnwebgpu": PORT}, ("tools.emscripten",)),
        ({"of": "emdawnwebgpu"}, {"emscripten": EMSDK}, ("tools.emscripten",)),
        ({"version": "v1"}, {"emscripten": EMSDK, "emdawnwebgpu": PORT}, ()),
    ],
)
def test_what_dawn_follows(dawn: dict[str, Any], others: dict[str, Any], needs: tuple[str, ...]) -> None:
    found = manifest({"dawn": {**DAWN, **dawn}, **others})
    assert found.needs(found.toolchain.tools["dawn"]) == needs


def test_dawn_at_a_release_follows_nothing() -> None:
    with pytest.raises(InvalidFileError) as caught:
        toolchain(dawn={**DAWN, "version": "v1", "of": "emdawnwebgpu"})
    assert [str(item) for item in caught.value.problems] == [
        "tools.dawn.of: has no place beside version, which says which release it is"
    ]


def test_without_an_sdk_a_port_needs_the_base() -> None:
    found = manifest({"zlib": PORT})
    assert found.needs(found.toolchain.tools["zlib"]) == ("base",)


def test_a_source_can_need_a_tool() -> None:
    found = manifest({"webgpu": PORT}, {"dawn": {"from": "dawn", "of": "webgpu"}})
    assert list(found.requests()) == ["base", "tools.webgpu", "sources.dawn"]
    assert list(found.misdirected()) == []


@given(st.permutations(["emscripten", "emdawnwebgpu", "dawn", "ninja", "cmake"]))
def test_every_order_of_the_file_gives_needs_first_and_keeps_the_rest(names: list[str]) -> None:
    kinds = {"emscripten": EMSDK, "emdawnwebgpu": PORT, "dawn": DAWN, "ninja": PYPI, "cmake": PYPI}
    found = manifest({name: kinds[name] for name in names})
    order = list(found.requests())
    assert sorted(order) == sorted(["base", *(f"tools.{name}" for name in names)])
    for key, request in found.requests().items():
        assert all(order.index(need) < order.index(key) for need in found.needs(request))
    free = [name for name in names if kinds[name] is PYPI]
    assert [name for name in order if name in {f"tools.{n}" for n in free}] == [f"tools.{n}" for n in free]


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        (
            {"emdawnwebgpu": {**PORT, "of": "emsdk"}, "emscripten": EMSDK},
            "tools.emdawnwebgpu.of: there is no tool 'emsdk'; name an Emscripten SDK (there is: emscripten)",
        ),
        (
            {"zlib": {**PORT, "of": "zlib"}},
            "tools.zlib.of: the tool 'zlib' is not an Emscripten SDK",
        ),
        (
            {"zlib": PORT, "a": EMSDK, "b": {**EMSDK, "mount": "/opt/b"}},
            "tools.zlib.of: is required where there are several Emscripten SDKs: a, b",
        ),
        (
            {"dawn": {**DAWN, "of": "bindings"}},
            "tools.dawn.of: there is no tool 'bindings'; name an Emscripten port or SDK",
        ),
        (
            {"dawn": {**DAWN, "of": "dawn"}, "zlib": PORT},
            "tools.dawn.of: the tool 'dawn' is not an Emscripten port or SDK (there is: zlib)",
        ),
        (
            {"dawn": DAWN, "emdawnwebgpu": PYPI},
            "tools.dawn.of: the tool 'emdawnwebgpu' is not an Emscripten port or SDK",
        ),
        (
            {"dawn": DAWN, "a": EMSDK, "b": {**EMSDK, "mount": "/opt/b"}},
            "tools.dawn.of: is required where there are several Emscripten SDKs: a, b",
        ),
    ],
)
def test_references_that_lead_nowhere(tools: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        toolchain(**tools)
    assert [str(item) for item in caught.value.problems] == [problem]


def test_references_of_sources_that_lead_nowhere() -> None:
    found = manifest({"emdawnwebgpu": PYPI}, {"dawn": DAWN})
    assert list(found.misdirected()) == [
        "sources.dawn.of: the tool 'emdawnwebgpu' is not an Emscripten port or SDK"
    ]
