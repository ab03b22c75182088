"""The checksums of releases: Starlark that is read and never run."""

from __future__ import annotations

import pytest

from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.resolve.emscripten import revisions

COMMIT, LINUX, ARM, MAC = "a" * 40, "1" * 64, "2" * 64, "3" * 64
TABLE = f'''\
# Made by a script.

EMSCRIPTEN_TAGS = {{
    "4.0.10": struct(
        hash = "{COMMIT}",
        sha_linux = "{LINUX}",
        sha_linux_arm64 = "{ARM}",
        sha_mac = "{MAC}",
    ),
    "3.1.0": struct(hash = "{COMMIT}", sha_linux = "{LINUX}", note = "old"),
}}
'''


def test_a_table() -> None:
    found = revisions.parse(TABLE.encode(), "revisions.bzl")
    assert list(found) == ["4.0.10", "3.1.0"]
    assert found["4.0.10"].commit == COMMIT
    assert dict(found["4.0.10"].checksums) == {"linux": LINUX, "linux_arm64": ARM, "mac": MAC}
    assert found["4.0.10"].sha256("linux_arm64") == Digest(ARM)
    assert found["3.1.0"].sha256("linux_arm64") is None
    assert found["3.1.0"].sha256("win") is None


def test_what_stands_around_the_table_does_not_matter() -> None:
    text = (
        f'load(":x.bzl", "y")\nOTHER = [n for n in range(9)]\ndef f(x):\n    return y(x)\n\n{TABLE}\nf(1)\n'
    )
    assert list(revisions.parse(text.encode(), "revisions.bzl")) == ["4.0.10", "3.1.0"]


def test_what_is_no_sha256_is_told_when_it_is_asked_for() -> None:
    found = revisions.parse(TABLE.replace(ARM, "22").encode(), "revisions.bzl")
    assert found["4.0.10"].sha256("linux") == Digest(LINUX)
    with pytest.raises(
        ResolveError, match=r"revisions.bzl:4: sha_linux_arm64 is '22', which is not a SHA-256"
    ):
        found["4.0.10"].sha256("linux_arm64")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "revisions.bzl: it has 0 tables EMSCRIPTEN_TAGS, not one"),
        (f"{TABLE}{TABLE}", "it has 2 tables"),
        (
            "EMSCRIPTEN_TAGS = make()",
            "revisions.bzl:1: cannot be read as data: EMSCRIPTEN_TAGS is not a dictionary",
        ),
        ("EMSCRIPTEN_TAGS = {v: struct() for v in VERSIONS}", "is not a dictionary"),
        (
            "EMSCRIPTEN_TAGS = {**OTHER}",
            "revisions.bzl:1: cannot be read as data: an entry has no name of its own",
        ),
        (
            'EMSCRIPTEN_TAGS = {\n"1": struct(hash = HASH)}',
            "revisions.bzl:2: cannot be read as data: a string is needed",
        ),
        ('EMSCRIPTEN_TAGS = {"1": struct(hash = "a" + "b")}', "a string is needed"),
        ('EMSCRIPTEN_TAGS = {"1": struct(hash = f"{x}")}', "a string is needed"),
        ('EMSCRIPTEN_TAGS = {"1": struct(**fields)}', "a value of a struct has no name of its own"),
        ('EMSCRIPTEN_TAGS = {"1": struct("a")}', "a struct has values without a name"),
        ('EMSCRIPTEN_TAGS = {"1": struct(sha_linux = "a")}', "a struct has no hash"),
        ('EMSCRIPTEN_TAGS = {"1": other.struct(hash = "a")}', "an entry is not a struct"),
        ('EMSCRIPTEN_TAGS = {"1": "a"}', "an entry is not a struct"),
        ('EMSCRIPTEN_TAGS = {1: struct(hash = "a")}', "a string is needed"),
        ('EMSCRIPTEN_TAGS = {"1": struct(hash = "a"), "1": struct(hash = "b")}', "1 is there twice"),
        ("EMSCRIPTEN_TAGS = {", "revisions.bzl:1: cannot be read: '{' was never closed"),
        ("EMSCRIPTEN_TAGS = " + "[" * 5000, "cannot be read"),
        ("EMSCRIPTEN_TAGS = " + "-" * 200_000 + "1", "revisions.bzl: cannot be read"),
        ("x = '\\d'\nEMSCRIPTEN_TAGS = 1", "revisions.bzl:2"),
        ("\0", "cannot be read"),
    ],
)
def test_odd_tables(text: str, said: str) -> None:
    with pytest.raises(ResolveError) as caught:
        revisions.parse(text.encode(), "revisions.bzl")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"# -*- coding: utf-7 -*-\n+AAA-", b" " * (revisions.LIMIT + 1)]
)
def test_what_is_no_text_of_that_size(data: bytes) -> None:
    with pytest.raises(ResolveError):
        revisions.parse(data, "revisions.bzl")
