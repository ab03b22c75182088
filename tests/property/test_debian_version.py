"""The order of versions is dpkg's."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockbuild.resolve.debian.version import satisfies, version_key

_PART = st.text(alphabet="0019azAZ.+~", max_size=6)


@st.composite
def versions(draw: st.DrawFn) -> str:
    epoch = draw(st.sampled_from(["", "0:", "1:", "10:"]))
    upstream = draw(st.sampled_from("0129")) + draw(
        st.text(alphabet="0019azAZ.+~-:" if epoch else "0019azAZ.+~-", max_size=7)
    )
    revision = draw(st.one_of(st.just(""), _PART.map(lambda part: f"-{part or '0'}")))
    return f"{epoch}{upstream.rstrip('-')}{revision}"


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is what versions are compared with")
@settings(max_examples=150, deadline=None)
@given(versions(), versions())
@example("1.0", "1.0-0")
@example("1.0~rc1", "1.0")
@example("1.0", "1.0+b1")
@example("0:1", "1")
@example("1a", "1+")
@example("1.010", "1.10")
@example("9" * 60, "1" + "0" * 60)
@example("1.", "1.0")
@example("2-1~", "2-1")
@example("0A", "0:0-:")
def test_same_order_as_dpkg(left: str, right: str) -> None:
    for operator, dpkg in (("<<", "lt"), ("=", "eq"), (">>", "gt")):
        done = subprocess.run(
            ["dpkg", "--compare-versions", left, dpkg, right], check=False, capture_output=True
        )
        assert done.returncode in (0, 1), done.stderr
        assert satisfies(left, operator, right) == (done.returncode == 0), (left, dpkg, right)


@given(st.lists(versions(), min_size=2, max_size=8))
def test_order_is_total(items: list[str]) -> None:
    ordered = sorted(items, key=version_key)
    items.reverse()
    again = sorted(items, key=version_key)
    assert [version_key(item) for item in again] == [version_key(item) for item in ordered]
    for lower, higher in pairwise(ordered):
        assert satisfies(lower, "<=", higher)
        assert satisfies(higher, ">=", lower)
        assert satisfies(lower, "<<", higher) != satisfies(lower, "=", higher)


@given(st.text(max_size=12))
def test_anything_is_a_version_or_refused(text: str) -> None:
    try:
        version_key(text)
    except ValueError:
        return
    assert text.isascii()
