"""Manifests: what is accepted, and what each mistake is told as."""

from __future__ import annotations

import pytest

from lockbuild.errors import InvalidFileError, UsageError
from lockbuild.model.manifest import Manifest, ProjectFile, Toolchain
from lockbuild.model.read import parse_toml, validate

PROJECT = """
[project]
name = "hello"
toolchain = "emscripten-debian"

[targets.hello]
steps = ["make"]
outputs = ["hello.js"]
"""

TOOLCHAIN = """
schema = 1
name = "small"
platforms = ["linux/amd64"]

[base.debian]
suite = "forky"
packages = ["emscripten"]

[tools.cmake]
from = "pypi"
requirement = "cmake>=3.31,<3.32"

[derive.libraries]
steps = ["em++ p.cpp -o p.js"]
env = { EM_CACHE = "$OUT" }
"""


def problems(model: type[ProjectFile] | type[Toolchain], text: str) -> list[str]:
    with pytest.raises(InvalidFileError) as caught:
        validate(model, parse_toml(text, "file.toml"), "file.toml")
    return [str(problem) for problem in caught.value.problems]


def test_a_project_needs_little() -> None:
    project = validate(ProjectFile, parse_toml(PROJECT, "f"), "f")
    assert project.targets["hello"].source == "."
    assert project.sources == {}


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("colour = 1", "colour: unknown key (known: claims, overrides, project, schema, sources, targets)"),
        ("schema = 2", "schema: must be 1, not 2"),
        ("[targets.a]\nsteps = ['x']", "targets.a.outputs: is required"),
        ("[targets.a]\nsteps = ['x']\noutputs = []", "targets.a.outputs: must not be empty"),
        ("[targets.a]\nsteps = []\noutputs = ['x']", "targets.a.steps: must not be empty"),
        ("[targets.a]\nsteps = 'x'\noutputs = ['x']", "targets.a.steps: must be a list, not a string"),
        (
            "[targets.a]\nsteps = ['x']\noutputs = ['x', '../y']",
            "targets.a.outputs[1]: '../y' leaves the project; write a relative path without '..'",
        ),
        *(
            (
                f"[targets.a]\nsteps = ['x']\noutputs = ['x', '{pattern}']",
                f"targets.a.outputs[1]: {pattern!r} can match nothing: {told}; "
                "a backslash makes the character behind it literal",
            )
            for pattern, told in (
                ("a\\", "it ends with a backslash that escapes nothing"),
                ("a\\/", "it ends with a backslash that escapes nothing"),
                ("[/]", "no character is in [/]"),
                ("x/[ab", "the bracket [ab has no end"),
                ("[[:nope:]]", "there is no class [:nope:]"),
            )
        ),
        (
            "[targets.a]\nsource = '/etc'\nsteps = ['x']\noutputs = ['x']",
            "targets.a.source: '/etc' leaves the project; write a relative path without '..'",
        ),
        (
            "[targets.a]\nsteps = ['x']\noutputs = ['x']\noutput = 'y'",
            "targets.a.output: unknown key; did you mean 'outputs'?",
        ),
        (
            "[targets.a]\nsteps = ['x']\noutputs = ['x']\nsources = ['zlib']",
            "targets.a.sources: 'zlib' is not in [sources]",
        ),
        (
            "[sources.z]\nfrom = 'svn'",
            'sources.z.from: must be one of "archive", "dawn", "debian-source", "git", "onnxruntime-deps", "path", '
            "not 'svn'",
        ),
        (
            "[sources.z]\nurl = 'x'",
            'sources.z.from: must be one of "archive", "dawn", "debian-source", "git", "onnxruntime-deps", "path"',
        ),
        (
            "[sources.z]\nfrom = 'archive'\nurl = 'https://example.test/z.tar'\nsha256 = 'abc'",
            "sources.z.sha256: 'abc' is not a SHA-256 digest (64 lower-case hex digits)",
        ),
    ],
)
def test_a_mistake_in_a_project_is_told_with_its_key(extra: str, told: str) -> None:
    text = extra + PROJECT if not extra.startswith("[") else PROJECT + extra
    assert problems(ProjectFile, text) == [told]


def test_all_mistakes_are_told_at_once() -> None:
    text = "[project]\nname = 'a b'\n[targets.x]\nsteps = []\noutputs = 3\n[sources.q]\nfrom = 'path'\n"
    assert problems(ProjectFile, text) == [
        "project.name: 'a b' is not a name (letters, digits, '.', '_', '-')",
        "project.toolchain: is required",
        "targets.x.steps: must not be empty",
        "targets.x.outputs: must be a list, not a whole number",
        "sources.q.path: is required",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "linux/amd64",
            "linux/vax",
            "platforms[0]: 'linux/vax' is not a known platform (known: linux/amd64, linux/arm64)",
        ),
        (
            '"cmake>=3.31,<3.32"',
            '"cmake>>3"',
            "tools.cmake.requirement: 'cmake>>3' is not a requirement (PEP 508): Expected semicolon (after name "
            "with no version specifier) or end",
        ),
        (
            'from = "pypi"',
            'from = "pypi"\nmount = "/usr"',
            "tools.cmake.mount: '/usr' is not a path below /opt; tools are mounted there",
        ),
        (
            'env = { EM_CACHE = "$OUT" }',
            'mount = "/opt/cmake/lib"',
            "derive.libraries.mount: /opt/cmake/lib overlaps /opt/cmake, the mount of tools.cmake",
        ),
        (
            'env = { EM_CACHE = "$OUT" }',
            'mount = "/opt/cmake"',
            "derive.libraries.mount: /opt/cmake is also the mount of tools.cmake",
        ),
        (
            'env = { EM_CACHE = "$OUT" }',
            'needs = ["later"]',
            "derive.libraries.needs: 'later' is not a derive that stands above it",
        ),
        (
            '"emscripten"',
            '"Emscripten"',
            "base.debian.packages[0]: 'Emscripten' is not a Debian package name, with or without =version",
        ),
    ],
)
def test_a_mistake_in_a_toolchain_is_told_with_its_key(old: str, new: str, told: str) -> None:
    assert problems(Toolchain, TOOLCHAIN.replace(old, new)) == [told]


def test_what_is_not_toml_is_told_with_its_place() -> None:
    with pytest.raises(InvalidFileError, match=r"f\.toml: 1 problem\n  not TOML: .*line 1"):
        parse_toml("a = = 1", "f.toml")


def test_a_merge_conflict_is_told_as_one() -> None:
    with pytest.raises(UsageError, match="unresolved merge conflict"):
        parse_toml("<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n", "lockbuild.lock")


def test_inputs_name_what_decides_a_lock_and_no_target() -> None:
    manifest = Manifest(
        project=validate(ProjectFile, parse_toml(PROJECT, "f"), "f"),
        toolchain=validate(Toolchain, parse_toml(TOOLCHAIN, "f"), "f"),
    )
    inputs = manifest.inputs()
    assert inputs["base.debian.packages"] == ["emscripten"]
    assert inputs["derive.libraries.env.EM_CACHE"] == "$OUT"
    assert list(inputs) == sorted(inputs)
    assert not any(key.startswith("targets") for key in inputs)


# Images as base

IMAGE = TOOLCHAIN.replace(
    '[base.debian]\nsuite = "forky"\npackages = ["emscripten"]\n',
    '[base.image]\nreference = "registry.example/team/base:1.2"\n',
)


def test_an_image_is_a_base_with_packages_or_without() -> None:
    alone = validate(Toolchain, parse_toml(IMAGE, "f"), "f")
    assert alone.base.debian is None
    both = validate(Toolchain, parse_toml(IMAGE + '[base.debian]\nsuite = "forky"\n', "f"), "f")
    for toolchain in (alone, both):
        manifest = Manifest(project=validate(ProjectFile, parse_toml(PROJECT, "f"), "f"), toolchain=toolchain)
        assert manifest.inputs()["base.image.reference"] == "registry.example/team/base:1.2"
        assert next(iter(manifest.requests())) == "base"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            'reference = "registry.example/team/base:1.2"',
            "",
            "base.image.reference: is required",
        ),
        (
            "registry.example/team",
            "team",
            "base.image.reference: 'team/base:1.2' names no registry; write host/repository or host:port/repository",
        ),
        (
            ":1.2",
            ":1.2@sha256:1",
            "base.image.reference: '1' is not a SHA-256 digest (64 lower-case hex digits)",
        ),
        (
            '[base.image]\nreference = "registry.example/team/base:1.2"',
            "[base]",
            "base: needs debian or image",
        ),
    ],
)
def test_what_is_wrong_with_an_image(old: str, new: str, told: str) -> None:
    assert old in IMAGE
    assert problems(Toolchain, IMAGE.replace(old, new)) == [told]
