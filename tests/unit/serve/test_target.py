"""Paths of requests, and hosts."""

from __future__ import annotations

import pytest

from lockbuild.serve.target import BadTargetError, is_local, split, well_formed


@pytest.mark.parametrize(
    ("target", "segments", "query"),
    [
        ("/", ("",), ""),
        ("/a/b%2Bc?d=/..&e", ("a", "b+c"), "d=/..&e"),
        ("/simple/x/", ("simple", "x", ""), ""),
        ("http://host:80/a", ("a",), ""),
        ("http://host", ("",), ""),
        ("/a...b/..c", ("a...b", "..c"), ""),
    ],
)
def test_targets(target: str, segments: tuple[str, ...], query: str) -> None:
    assert split(target) == (segments, query)


@pytest.mark.parametrize(
    "target",
    [
        "/..",
        "/a/../b",
        "/a/%2e%2E/b",
        "/a/./b",
        "/a%2fb",
        "/a%5Cb",
        "/a\\..\\b",
        "/a%00b",
        "/a%0ab",
        "/a%7f",
        "//a",
        "/a//b",
        "a",
        "*",
        "/%ff",
    ],
)
def test_targets_that_could_mean_something_else(target: str) -> None:
    with pytest.raises(BadTargetError):
        split(target)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:80", "127.0.0.1:1", "[::1]:8", "10.0.0.1", "a.localhost"]
)
def test_names_of_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["evil.test", "localhost.evil.test:80", "127.0.0.1.evil.test", "a b", "", "x<y>"]
)
def test_names_of_others(host: str) -> None:
    assert not is_local(host)


def test_what_can_be_repeated() -> None:
    assert well_formed("mirror.example:8080")
    assert not well_formed('mirror"><script>')
