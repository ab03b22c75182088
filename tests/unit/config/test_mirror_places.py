"""Mirrors: which places stand for a URL, and what never leaves with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.config import Config, load
from lockbuild.errors import InvalidFileError


def config(*mirrors: dict[str, Any]) -> Config:
    return Config.model_validate({"mirrors": list(mirrors)})


def mirror(prefix: str, *to: str) -> dict[str, Any]:
    return {"prefix": prefix, "to": list(to)}


ONE = config(mirror("https://git.test/team/sdk", "file:///srv/sdk.git", "https://near.test/sdk"))


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://git.test/team/sdk", ["file:///srv/sdk.git", "https://near.test/sdk"]),
        ("https://git.test/team/sdk.git", ["file:///srv/sdk.git", "https://near.test/sdk"]),
        ("https://git.test/team/sdk/", ["file:///srv/sdk.git/", "https://near.test/sdk/"]),
        ("https://git.test/team/sdk/a/b.zip?x=1", ["file:///srv/sdk.git/a/b.zip?x=1", "https://near.test/sdk/a/b.zip?x=1"]),
        ("https://git.test:443/team/sdk/a", ["file:///srv/sdk.git/a", "https://near.test/sdk/a"]),
        ("https://GIT.test/team/sdk/a", ["file:///srv/sdk.git/a", "https://near.test/sdk/a"]),
        ("https://git.test/team/sdk2", None),
        ("https://git.test/team/sdk.git2", None),
        ("https://git.test/team", None),
        ("http://git.test/team/sdk", None),
        ("https://git.test:8443/team/sdk", None),
        ("https://git.test.evil.test/team/sdk", None),
        ("https://git.test/team/sdk/../../etc/passwd", None),
        ("https://git.test/team/sdk/a/%2e%2e/%2E%2E/passwd", None),
        ("https://git.test/team/sdk/..%2f..%2fpasswd", None),
        ("https://git.test/team/sdk/..\\passwd", None),
        ("http://[broken", None),
    ],
)  # fmt: skip
def test_a_prefix_ends_with_a_path_component(url: str, places: list[str] | None) -> None:
    assert ONE.places(url) == (places or [url])


def test_a_mirror_of_a_whole_host() -> None:
    for prefix in ("https://git.test", "https://git.test/"):
        made = config(mirror(prefix, "https://near.test/git/"))
        assert made.places("https://git.test/a/b") == ["https://near.test/git/a/b"]
        assert made.places("https://git.test/") == ["https://near.test/git/"]


def test_the_longest_prefix_wins_wherever_it_stands() -> None:
    mirrors = [
        mirror("https://git.test/a", "https://second.test/a"),
        mirror("https://git.test/a/b/", "https://third.test/b"),
        mirror("https://git.test", "https://first.test"),
    ]
    for order in (mirrors, mirrors[::-1]):
        made = config(*order)
        assert made.places("https://git.test/x") == ["https://first.test/x"]
        assert made.places("https://git.test/a/x") == ["https://second.test/a/x"]
        assert made.places("https://git.test/a/b/x") == ["https://third.test/b/x"]
        assert made.places("https://git.test/a/bc") == ["https://second.test/a/bc"]


def test_one_prefix_twice_is_one_list_and_the_original_only_where_it_is_listed() -> None:
    made = config(
        mirror("https://git.test/a", "https://one.test/a"),
        mirror("https://git.test/a/", "https://git.test/a", "https://one.test/a", "https://two.test/a"),
    )
    assert made.places("https://git.test/a/x") == [
        "https://one.test/a/x",
        "https://git.test/a/x",
        "https://two.test/a/x",
    ]


def test_credentials_stay_with_their_origin() -> None:
    made = config(
        mirror(
            "https://git.test/a", "https://git.test/copy", "https://me:own@far.test/a", "https://plain.test/a"
        )
    )
    assert made.places("https://anna:s3cret@git.test/a/x?b=1&X-Amz-Signature=abc&token=t") == [
        "https://anna:s3cret@git.test/copy/x?b=1&X-Amz-Signature=abc&token=t",
        "https://me:own@far.test/a/x?b=1",
        "https://plain.test/a/x?b=1",
    ]


def test_a_query_of_the_mirror_stays() -> None:
    made = config(mirror("https://git.test/a", "https://near.test/get?repo=a"))
    assert made.places("https://git.test/a") == ["https://near.test/get?repo=a"]


SEGMENT = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="-_."), min_size=1
).filter(lambda text: text not in (".", "..") and not text.endswith(".git"))
PATH = st.lists(SEGMENT, min_size=1, max_size=5)


@given(path=PATH, rest=PATH)
def test_what_follows_a_prefix_is_kept(path: list[str], rest: list[str]) -> None:
    prefix, below = "/".join(path), "/".join(rest)
    made = config(mirror(f"https://a.test/{prefix}", "https://b.test/m"))
    assert made.places(f"https://a.test/{prefix}/{below}") == [f"https://b.test/m/{below}"]


@given(first=PATH, second=PATH, url=PATH)
def test_the_order_of_the_file_does_not_matter(first: list[str], second: list[str], url: list[str]) -> None:
    mirrors = [
        mirror(f"https://a.test/{'/'.join(path)}", f"https://m.test/{number}")
        for number, path in enumerate((first, second))
    ]
    wanted = f"https://a.test/{'/'.join(url)}"
    assert set(config(*mirrors).places(wanted)) == set(config(*mirrors[::-1]).places(wanted))


@given(url=st.text(max_size=40))
def test_any_text_has_a_place(url: str) -> None:
    """What is no URL is told by whoever reads it."""
    places = config(mirror("https://a.test", "https://m.test")).places(url)
    assert places
    assert all(urlsplit(place).hostname == "m.test" for place in places) or places == [url]


def test_by_digest() -> None:
    made = config(
        {"by-digest": "https://one.test/sha256/{sha256}"},
        mirror("https://git.test", "https://near.test"),
        {"by-digest": "file:///srv/{sha512}.bin"},
        {"by-digest": "https://both.test/{sha256}/{sha512}"},
    )
    assert made.places_of_digest(sha256="aa") == ["https://one.test/sha256/aa"]
    assert made.places_of_digest(sha256=None, sha512="bb") == ["file:///srv/bb.bin"]
    assert made.places_of_digest(sha256="aa", sha512="bb") == [
        "https://one.test/sha256/aa",
        "file:///srv/bb.bin",
        "https://both.test/aa/bb",
    ]
    assert made.places_of_digest(sha256=None) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('prefix = "https://a.test"', "has either prefix and to, or by-digest"),
        ('to = ["https://a.test"]', "has either prefix and to, or by-digest"),
        (
            'prefix = "https://a.test"\nto = ["file:///x"]\nby-digest = "https://b.test/{sha256}"',
            "has either",
        ),
        ('prefix = "https://a.test"\nto = []', "mirrors[0].to: must not be empty"),
        ('prefix = "a.test"\nto = ["file:///x"]', "mirrors[0].prefix: is not an http://"),
        ('prefix = "https://a.test"\nto = ["ext::sh -c x"]', "mirrors[0].to[0]: is not an http://"),
        ('by-digest = "https://a.test/x"', "mirrors[0].by-digest: must have {sha256} or {sha512}"),
        ('by-digest = "https://a.test/{sha1}/{sha256}"', "mirrors[0].by-digest: must have"),
        (
            'by-digest = "https://{sha256}.a.test/x"',
            "mirrors[0].by-digest: must not have the digest in the host",
        ),
        ('prefx = "https://a.test"', "mirrors[0].prefx: unknown key; did you mean 'prefix'?"),
    ],
)
def test_what_no_mirror_is(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f"[[mirrors]]\n{text}\n")
    with pytest.raises(InvalidFileError) as caught:
        load({"LOCKBUILD_CONFIG": str(file)})
    assert problem in str(caught.value)


def test_no_secret_in_the_representation() -> None:
    made = config(
        mirror("https://a:s3cret@h.test/x", "https://b:s3cret@m.test"),
        {"by-digest": "https://c:s3cret@m.test/{sha256}?token=s3cret"},
    )
    assert "s3cret" not in repr(made)
