"""Packs and loose objects: git reads them, and their bytes are fixed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.archive import gitpack
from tests.support.git_server import run_git


def test_git_reads_a_pack(tmp_path: Path) -> None:
    objects: list[tuple[gitpack.Type, bytes]] = [
        ("blob", b""),
        ("blob", b"x" * 15),
        ("blob", b"x" * 16),
        ("blob", bytes(range(256)) * 1000),
        ("blob", b"y" * 65535),
        ("blob", b"y" * 65536),
        ("blob", b"x" * 15),
    ]
    made = gitpack.pack(objects)
    run_git("init", "-q", "--bare", ".", cwd=tmp_path)
    (tmp_path / "objects/pack" / f"{made.name}.pack").write_bytes(made.pack)
    (tmp_path / "objects/pack" / f"{made.name}.idx").write_bytes(made.index)
    run_git("verify-pack", f"objects/pack/{made.name}.pack", cwd=tmp_path)
    for kind, content in objects:
        oid = gitpack.object_id(kind, content)
        assert run_git("cat-file", "-s", oid, cwd=tmp_path) == str(len(content))
    (tmp_path / "other.pack").write_bytes(made.pack)
    run_git("index-pack", "other.pack", cwd=tmp_path)
    assert (tmp_path / "other.idx").read_bytes() == made.index


def test_git_reads_a_loose_object(tmp_path: Path) -> None:
    run_git("init", "-q", "--bare", ".", cwd=tmp_path)
    oid = gitpack.object_id("blob", b"hello\n")
    (tmp_path / "objects" / oid[:2]).mkdir()
    (tmp_path / "objects" / oid[:2] / oid[2:]).write_bytes(gitpack.loose("blob", b"hello\n"))
    assert run_git("cat-file", "blob", oid, cwd=tmp_path) == "hello"
    run_git("fsck", cwd=tmp_path)


def test_the_bytes_are_fixed() -> None:
    """No compression library decides any of them."""
    made = gitpack.pack([("blob", b"hello\n"), ("blob", b"a" * 70000)])
    digest = hashlib.sha256(made.pack + made.index).hexdigest()
    assert (made.name, digest) == (
        "pack-306bb5c403fd82610a5cfffbedfbf740544aad55",
        "95af6bd781a1b4bbb7c1036a58d1a30f4863a0706ef725cb2a1d3d0f05397638",
    )


@given(st.lists(st.binary(max_size=300), max_size=8), st.randoms())
def test_order_and_repetition_do_not_matter(contents: list[bytes], random: object) -> None:
    objects: list[tuple[gitpack.Type, bytes]] = [("blob", content) for content in contents]
    shuffled = [*objects, *objects]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert gitpack.pack(objects) == gitpack.pack(shuffled)


@given(st.binary(max_size=200_000))
def test_a_loose_object_comes_back(content: bytes) -> None:
    assert gitpack.read_loose(gitpack.loose("commit", content)) == ("commit", content)


def test_what_is_no_object() -> None:
    with pytest.raises(ValueError, match="not a git object"):
        gitpack.read_loose(b"hello")
