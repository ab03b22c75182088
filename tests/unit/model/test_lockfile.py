"""The lock's text: canonical, refusing what it does not know, naming what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.errors import InvalidFileError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import (
    InputValue,
    Lock,
    LockedEnvironment,
    LockedLayers,
    LockedTree,
    ManifestRecord,
    OutputFile,
    RecordedOutputs,
    Source,
    Suite,
)
from lockbuild.model.lockfile import canonical, dumps, loads
from lockbuild.model.platform import Platform
from lockbuild.model.soundness import inputs_digest

AMD64 = Platform("linux", "amd64")
A, B = Digest.of(b"a"), Digest.of(b"b")
INPUTS: dict[str, InputValue] = {"base.debian.suite": "forky", "platforms": ["linux/amd64"]}


def lock() -> Lock:
    return Lock(
        manifest=ManifestRecord(digest=inputs_digest(INPUTS), inputs=INPUTS),
        suites=[
            Suite(
                name="forky", codename="forky", date="2026-10-30T08:08:01Z", expired="accepted", inrelease=A
            )
        ],
        trees=[
            LockedTree(
                name="tools.cmake", platform=AMD64, unpack="wheels", mount="/opt/cmake", exports={"A": "$OUT"}
            ),
            LockedTree(name="base", platform=AMD64, unpack="debian-root", mount="/", digest=B),
        ],
        sources=[
            Source(
                purl="pkg:pypi/cmake@3.31.10",
                path="c.whl",
                size=3,
                sha256=B,
                trees=["linux/amd64:tools.cmake"],
            ),
            Source(
                purl="pkg:deb/debian/a@1", path="pool/a.deb", size=1, sha256=A, trees=["linux/amd64:base"]
            ),
        ],
        environments={"linux/amd64": LockedEnvironment(image=A, manifest=B)},
        outputs={
            "hello": RecordedOutputs(
                input=A,
                platform=AMD64,
                files=[
                    OutputFile(path="b.wasm", size=2, sha256=B),
                    OutputFile(path="a.js", size=1, sha256=A),
                ],
            )
        },
    )


def test_write_read_write_is_byte_equal() -> None:
    text = dumps(lock())
    assert dumps(loads(text, "f")) == text
    assert "\r" not in text
    assert text.endswith("]\n")


def test_the_order_of_values_does_not_matter() -> None:
    shuffled = lock().model_copy(update={"trees": lock().trees[::-1], "sources": lock().sources[::-1]})
    assert dumps(shuffled) == dumps(lock())


def test_sorted_by_name() -> None:
    assert [tree.name for tree in canonical(lock()).trees] == ["base", "tools.cmake"]
    assert [source.purl[:7] for source in canonical(lock()).sources] == ["pkg:deb", "pkg:pyp"]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(_TEXT, _TEXT, st.lists(_TEXT))
def test_any_text_survives(key: str, value: str, values: list[str]) -> None:
    inputs: dict[str, InputValue] = {key: value, key + "x": values, key + "y": True, key + "z": 3}
    record = ManifestRecord(digest=inputs_digest(inputs), inputs=inputs)
    before = lock().model_copy(update={"manifest": record})
    text = dumps(before)
    after = loads(text, "f")
    assert after.manifest.inputs == record.inputs
    assert dumps(after) == text


def test_an_unknown_newer_schema_names_what_is_needed() -> None:
    text = dumps(lock()).replace("schema = 1", "schema = 7")
    with pytest.raises(UsageError) as caught:
        loads(text, "lockbuild.lock")
    assert str(caught.value) == (
        "lockbuild.lock: it has schema 7, and this version of lockbuild reads schema 1\n"
        "hint: use a version of lockbuild that knows lock schema 7"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (str(B), str(B)[:-1], "is not a SHA-256 digest"),
        ("size = 3", 'size = "3"', "sources[1].size: must be a whole number, not a string"),
        ("size = 3", "size = -3", "sources[1].size: "),
        ('unpack = "wheels"', 'unpack = "magic"', "trees[1].unpack: must be "),
        ("size = 3", "size = 3\nhost = 'x'", "sources[1].host: unknown key"),
        ('linux/amd64"\nunpack', 'linux/vax"\nunpack', "is not a known platform"),
        ("schema = 1\n", "", "schema: is required"),
        ("schema = 1", 'schema = "1"', 'schema: must be 1, not "1"'),
        ('suite" = "forky"', 'suite" = "sid"', "manifest.digest: is not the digest of manifest.inputs"),
        ('name = "base"', 'name = "ground"', "trees[0].name: 'ground' is not base, tools.NAME"),
        ('name = "base"', 'name = "tools.cmake"', "trees[1]: linux/amd64:tools.cmake is there twice"),
        ('unpack = "wheels"', 'unpack = "derive"', "trees[1].unpack: a tree called tools.cmake is not"),
        ('mount = "/"', 'mount = "/opt"', "trees[0].mount: '/opt' is not a place where base can stand"),
        ("/opt/cmake", "/opt/../etc", "trees[1].mount: '/opt/../etc' is not a place where tools.cmake"),
        ("/opt/cmake", "/opt", "trees[1].mount: '/opt' is not a place where tools.cmake"),
        ("pkg:pypi/", "pypi:", "sources[1].purl: 'pypi:cmake@3.31.10' is not a package URL"),
        ('path = "pool/a.deb"', 'path = "/pool/a.deb"', "sources[0].path: '/pool/a.deb' is not a path below"),
        ('path = "pool/a.deb"', 'path = "../a.deb"', "sources[0].path: '../a.deb' is not a path below"),
        ('path = "pool/a.deb"', 'url = "ftp://x"', "sources[0].url: 'ftp://x' is not an http://"),
        ('path = "pool/a.deb"', 'url = "http://[x"', "sources[0].url: 'http://[x' is not an http://"),
        (
            'path = "pool/a.deb"',
            'url = "http://x:99999/"',
            "sources[0].url: 'http://x:99999/' is not an http://",
        ),
        ('path = "pool/a.deb"\n', "", "sources[0]: has one of path and url, not both or neither"),
        ('["linux/amd64:base"]', '["any:base"]', "sources[0].trees: there is no tree 'any:base'"),
        ('["linux/amd64:base"]', '["any:base"]', "trees[0]: no source is part of linux/amd64:base"),
        ('["linux/amd64:base"]', "[]", "sources[0].trees: must not be empty"),
        ("""environments."linux/amd64""", """environments."linux/vax""", "environments.linux/vax: "),
        ('"a.js"', '"../a.js"', "outputs.hello.files[0].path: '../a.js' leaves the output directory"),
        ('"a.js"', '"b.wasm"', "outputs.hello.files[1].path: 'b.wasm' is there twice"),
    ],
)
def test_a_hand_edited_lock_is_refused_with_its_key(old: str, new: str, told: str) -> None:
    text = dumps(lock())
    assert old in text
    with pytest.raises(InvalidFileError) as caught:
        loads(text.replace(old, new), "lockbuild.lock")
    assert told in str(caught.value)
    assert "do not edit a lock by hand" in str(caught.value)


def test_the_image_with_compressed_layers() -> None:
    text = (
        f'[environments."linux/amd64"]\nimage = "{A}"\nmanifest = "{B}"\nsize = 7\n\n'
        f'[environments."linux/amd64".layers.gzip]\nencoder = "deflate 1"\nmanifest = "{A}"\nsize = 8\n\n'
        f'[environments."linux/amd64".layers.zstd]\nencoder = "libzstd 1"\nmanifest = "{B}"\nsize = 9\n'
    )
    layers = {
        "zstd": LockedLayers(encoder="libzstd 1", manifest=B, size=9),
        "gzip": LockedLayers(encoder="deflate 1", manifest=A, size=8),
    }
    environment = LockedEnvironment(image=A, manifest=B, size=7, layers=layers)
    locked = lock().model_copy(update={"environments": {"linux/amd64": environment}})
    assert text in dumps(locked)
    assert loads(dumps(locked), "x").environments == locked.environments


def test_the_digest_of_an_environment_is_of_what_was_locked() -> None:
    locked = lock()
    digest = locked.environment_digest(AMD64)
    tree = locked.trees[0]
    # What materialising adds, and what is for people, changes nothing.
    same = tree.model_copy(update={"digest": A, "pins": {"version": "1"}})
    assert locked.model_copy(update={"trees": [same, *locked.trees[1:]]}).environment_digest(AMD64) == digest
    assert locked.model_copy(update={"environments": {}, "outputs": {}}).environment_digest(AMD64) == digest
    # How it is unpacked, from what, how tools are derived, for which platform: all else does.
    other = tree.model_copy(update={"exports": {"X": "y"}})
    source = locked.sources[0].model_copy(update={"sha256": A})
    record = locked.manifest.model_copy(
        update={"inputs": {**locked.manifest.inputs, "derive.x.steps": ["true"]}}
    )
    for changed in (
        locked.model_copy(update={"trees": [other, *locked.trees[1:]]}),
        locked.model_copy(update={"sources": [source, *locked.sources[1:]]}),
        locked.model_copy(update={"manifest": record}),
    ):
        assert changed.environment_digest(AMD64) != digest
    assert locked.environment_digest(Platform.parse("linux/arm64")) != digest
