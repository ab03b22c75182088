"""The list of Emscripten's releases: versions, aliases, ranges, and commits that are cut short."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lockbuild.errors import ResolveError
from lockbuild.resolve.emscripten import tags
from lockbuild.resolve.emscripten.tags import Release, Releases

A, B, C = "a" * 40, "b" * 40, "c" * 40


def releases(**more: Any) -> Releases:
    data = {
        "aliases": {"latest": "4.0.10", "latest-sdk": "latest", "sdk": "latest-sdk"},
        "releases": {
            "4.0.10": A,
            "4.0.10-asserts": B,
            "4.0.9": B,
            "4.0.9-asserts": "64750c136",
            "3.1.74": C,
            "2.0.29-lto": C,
        },
    }
    return tags.parse(json.dumps({**data, **more}).encode(), "the list")


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("4.0.9", "4.0.9"),
        (" 4.0.9 ", "4.0.9"),
        ("4.0.10-asserts", "4.0.10-asserts"),
        ("2.0.29-lto", "2.0.29-lto"),
        ("latest", "4.0.10"),
        ("sdk", "4.0.10"),
        (">=3.1,<4", "3.1.74"),
        ("==4.0.*", "4.0.10"),
        ("~=4.0.8", "4.0.10"),
        ("!=4.0.10", "4.0.9"),
        ("<4.0.10", "4.0.9"),
    ],
)
def test_what_names_a_release(wanted: str, version: str) -> None:
    found = releases().select(wanted)
    assert found == Release(version, releases().releases[version])


def test_the_emscripten_in_a_release() -> None:
    assert Release("4.0.10-asserts", B).emscripten == "4.0.10"
    assert Release("4.0.10", B).emscripten == "4.0.10"
    assert [Release("1.0", commit).complete for commit in (A, "64750c136", "A" * 40)] == [True, False, False]


@pytest.mark.parametrize(
    ("wanted", "what", "hint"),
    [
        ("4.0.11", "has no release '4.0.11'", "there is 4.0.10, 4.0.9"),
        ("nightly", "has no release 'nightly'", "newest are 4.0.10, 4.0.9, 3.1.74"),
        (">=5", "no release of Emscripten fits '>=5'", "there are 3 releases, from 3.1.74 to 4.0.10"),
        (">=x", "has no release '>=x'", "nothing has a name like that"),
    ],
)
def test_what_names_none_says_what_there_is(wanted: str, what: str, hint: str) -> None:
    with pytest.raises(ResolveError) as caught:
        releases().select(wanted)
    assert what in caught.value.what
    assert caught.value.on == "the list"
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("aliases", "what"),
    [
        ({"latest": "other", "other": "latest"}, "leads back to itself: latest -> other -> latest"),
        ({"latest": "latest"}, "leads back to itself: latest -> latest"),
        ({"latest": "5.0.0"}, "leads to '5.0.0', which is no release"),
    ],
)
def test_aliases_that_lead_nowhere(aliases: dict[str, str], what: str) -> None:
    with pytest.raises(ResolveError, match=what):
        releases(aliases=aliases).select("latest")


def test_a_release_goes_before_a_range_of_its_name_and_an_alias_before_both() -> None:
    assert releases(aliases={"4.0.9": "3.1.74"}).select("4.0.9").version == "3.1.74"


def test_older_ones_that_fit() -> None:
    assert releases().below("4.0.10", "latest") == ["4.0.9", "3.1.74"]
    assert releases().below("4.0.10", ">=4") == ["4.0.9"]
    assert releases().below("4.0.10-asserts", "latest") == []


def test_builds_with_assertions_that_are_whole() -> None:
    assert releases().complete_asserts() == ["4.0.10-asserts"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"{", "is not the list of Emscripten's releases"),
        (b"\xff\xfe\xff", "is not the list of Emscripten's releases"),
        (b"[]", "no table 'aliases'"),
        (b'{"aliases": {}, "releases": []}', "no table 'releases'"),
        (b'{"aliases": {"a": 1}, "releases": {}}', "no table 'aliases'"),
        (b'{"aliases": {}, "releases": {"1.0": "xyz"}}', "1.0 has 'xyz' for a commit"),
        (b'{"aliases": {}, "releases": {"1.0": ""}}', "1.0 has '' for a commit"),
        (b'{"aliases": {}, "releases": {"1.0": "aa", "1.0": "bb"}}', "'1.0' is there twice"),
        (b'{"aliases": ' + b"[" * 100_000, "is not the list"),
        (b'{"a": ' + b'{"a": ' * 100_000, "is not the list"),
        (b" " * (tags.LIMIT + 1), f"is larger than {tags.LIMIT} bytes"),
    ],
)
def test_what_is_no_such_list(data: bytes, what: str) -> None:
    with pytest.raises(ResolveError) as caught:
        tags.parse(data, "the list")
    assert what in str(caught.value)


def test_the_real_list() -> None:
    """Whole: each release and alias of the real file, which stands beside the checkout."""
    shared = Path(os.environ.get("LOCKBUILD_TEST_SHARED", Path(__file__).parents[4] / "shared"))
    if not shared.is_dir():
        pytest.skip(f"there is no {shared}, and LOCKBUILD_TEST_SHARED names no directory with the real list")
    data = (shared / "data/emscripten-releases-tags.json").read_bytes()
    found = tags.parse(data, "the real list")
    raw = json.loads(data)
    assert len(found.releases) > 300
    assert (dict(found.releases), dict(found.aliases)) == (raw["releases"], raw["aliases"])
    for version, commit in raw["releases"].items():
        assert found.select(version) == Release(version, commit)
    for alias in raw["aliases"]:
        assert found.select(alias).version in raw["releases"]
    assert found.select("4.0.19").commit == "8b01e2ec3f33e6b94842096d7312ce4ef5f33f6c"
    assert found.select("6.0.5").commit == "dbd755b5da399329c2576f6e3dfa7f419f5d8409"
    assert found.select("latest-sdk") == found.select("latest")
    assert found.select(">=4.0.10,<4.0.20").version == "4.0.19"
    short = {version: commit for version, commit in found.releases.items() if len(commit) != 40}
    assert sorted(map(len, short.values())) == [8, 9]
    assert all(version.endswith("-asserts") for version in short)
    assert not set(short) & set(found.complete_asserts())
    newest = found.newest()
    assert newest == sorted(newest, key=lambda v: [int(part) for part in v.split(".")], reverse=True)
    assert set(newest) == {version for version in raw["releases"] if "-" not in version}
