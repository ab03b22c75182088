"""The plan: what its digest depends on, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.build.maps import compiler_flags, prefix_maps
from lockbuild.build.plan import Plan, plan_derive, plan_target
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment, MountedTree
from lockbuild.model.manifest import Derive, Target
from lockbuild.model.platform import Platform

A, B, C = (Digest.of(letter) for letter in (b"a", b"b", b"c"))


def environment(root: str = "/somewhere", tool: Digest = B) -> Environment:
    return Environment(
        platform=Platform("linux", "amd64"),
        trees=(
            MountedTree("base", A, "/", Path(root, "base")),
            MountedTree("tools.cmake", tool, "/opt/cmake", Path(root, "cmake")),
        ),
        variables={"PATH": "/opt/cmake/bin:/usr/bin", "TZ": "UTC"},
    )


def target(**changes: object) -> Target:
    return Target.model_validate({"steps": ["make"], "outputs": ["a.wasm"], **changes})


def plan(**changes: object) -> Plan:
    return plan_target("hello", target(**changes), environment(), C, {"zlib": A})


def test_the_input_digest_is_a_golden_value() -> None:
    """It stands in people's locks: it changes only with `PROTOCOL`."""
    assert plan().digest().hex == "003cbde8efcaf9cbac53d2063381a1d5b4c7273762fc18d0c6557fcc06d7952f"


@pytest.mark.parametrize(
    "changes",
    [{"steps": ["make -j"]}, {"outputs": ["b.wasm"]}, {"env": {"CC": "emcc"}}],
)
def test_the_digest_depends_on_the_target(changes: dict[str, object]) -> None:
    assert plan(**changes).digest() != plan().digest()


def test_the_digest_depends_on_every_tree() -> None:
    digests = {
        plan().digest(),
        plan_target("hello", target(), environment(tool=C), C, {"zlib": A}).digest(),
        plan_target("hello", target(), environment(), B, {"zlib": A}).digest(),
        plan_target("hello", target(), environment(), C, {"zlib": B}).digest(),
        plan_target("hello", target(), environment(), C, {}).digest(),
    }
    assert len(digests) == 5


def test_the_digest_depends_neither_on_a_name_nor_on_where_the_store_is() -> None:
    other = plan_target("other", target(), environment(root="/elsewhere"), C, {"zlib": A})
    assert other.digest() == plan().digest()


def test_variables_see_the_fixed_directories_and_the_maps() -> None:
    variables = plan(env={"LIB": "$BUILD/lib", "KEEP": "$HOME"}).variables
    assert variables["SOURCE"] == "/build/source"
    assert variables["LIB"] == "/build/build/lib"
    assert variables["KEEP"] == "$HOME"
    assert variables["EMCC_CFLAGS"].split() == [
        "-ffile-prefix-map=/build/build=build",
        "-ffile-prefix-map=/build/source=source",
        "-ffile-prefix-map=/build/sources/zlib=sources/zlib",
        "-ffile-prefix-map=/opt/cmake=cmake",
        "-ffile-prefix-map=/usr=usr",
    ]


def test_a_dollar_that_begins_no_known_name_stays() -> None:
    values = {
        "$$": "$$",
        "a$": "a$",
        "$SOURCES $sOURCE ${SOURCE ${} ${A}": "$SOURCES $sOURCE ${SOURCE ${} ${A}",
        "$OUT": "$OUT",
        "${BUILD}x:$SOURCE/$HOME": "/build/buildx:/build/source/$HOME",
        "$$SOURCE": "$/build/source",
    }
    variables = plan(env={f"V{number}": value for number, value in enumerate(values)}).variables
    assert [variables[f"V{number}"] for number in range(len(values))] == list(values.values())


def test_a_target_adds_to_the_flags_of_emcc_and_cannot_lose_the_maps() -> None:
    flags = plan(env={"EMCC_CFLAGS": "-msimd128"}).variables["EMCC_CFLAGS"]
    assert flags.endswith(" -msimd128")
    assert flags.startswith("-ffile-prefix-map=")


def test_no_map_is_for_the_root() -> None:
    assert ("/", "") not in prefix_maps(environment(), [])
    assert " " not in compiler_flags([("/build/source", "source")])


def test_a_derived_tool_writes_to_its_final_place() -> None:
    derive = Derive(steps=["em++ p.cpp"], env={"EM_CACHE": "$OUT"})
    derived = plan_derive("derive.libraries", derive, environment(), "/opt/cache")
    assert derived.variables["EM_CACHE"] == derived.variables["OUT"] == "/opt/cache"
    assert derived.digest() != plan_derive("derive.libraries", derive, environment(), "/opt/other").digest()


def test_extra_steps_of_a_derived_tool_are_steps() -> None:
    """Where they stand decides nothing; none leave the digest as it was."""
    one = plan_derive("derive.x", Derive(steps=["a", "b"]), environment(), "/opt/x")
    split = plan_derive("derive.x", Derive(steps=["a"], extra_steps=["b"]), environment(), "/opt/x")
    assert (split.steps, split.digest()) == (("a", "b"), one.digest())
