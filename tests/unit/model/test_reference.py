"""References to registries: the grammar of the distribution project, with the registry always named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference

DIGEST = "sha256:" + "5" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("registry.example/a", Reference("registry.example", "a")),
        ("localhost/a/b:1", Reference("localhost", "a/b", "1")),
        ("host:5000/a_b/c__d/e-f.g:v1.2-x", Reference("host:5000", "a_b/c__d/e-f.g", "v1.2-x")),
        (f"[::1]:5000/a@{DIGEST}", Reference("[::1]:5000", "a", None, Digest("5" * 64))),
        (f"10.0.0.1/a:t@{DIGEST}", Reference("10.0.0.1", "a", "t", Digest("5" * 64))),
    ],
)
def test_what_is_a_reference(text: str, expected: Reference) -> None:
    assert Reference.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a/b", "debian:12", "library/debian:12", "registry.example", "registry.example/", "/a",
        "registry.example/A", "registry.example/a//b", "registry.example/a/", "registry.example/-a",
        "registry.example/a:", "registry.example/a:-x", "registry.example/a:b:c", "registry.example/a@",
        "registry.example/a@sha512:00", "registry.example/a b", "https://registry.example/a",
        "user@registry.example/a", "registry.example:port/a", "registry..example/a", "-x.example/a",
        f"registry.example/a@{DIGEST}0", "registry.example/../a", "registry.example/" + "a" * 255,
        "registry.example/a:" + "t" * 129, "registry.example/a\n",
    ],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        Reference.parse(text)


_name = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,8}){0,2}", fullmatch=True)


@given(
    registry=st.from_regex(r"[a-z][a-z0-9]{0,8}\.[a-z]{1,5}(:[1-9][0-9]{0,4})?", fullmatch=True),
    parts=st.lists(_name, min_size=1, max_size=4),
    tag=st.none() | st.from_regex(r"\w[\w.-]{0,20}", fullmatch=True).filter(str.isascii),
    digest=st.none() | st.binary(max_size=4).map(Digest.of),
)
def test_written_and_read_again_it_is_the_same(
    registry: str, parts: list[str], tag: str | None, digest: Digest | None
) -> None:
    reference = Reference(registry, "/".join(parts), tag, digest)
    assert Reference.parse(str(reference)) == reference
    assert reference.target == str(digest or tag or "latest")
    assert reference.at(Digest.of(b"")).tag is None
    assert reference.at("other").digest is None
