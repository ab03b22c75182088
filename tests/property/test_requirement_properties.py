"""The short way of checking a requirement agrees with the whole grammar."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from lockbuild.model.requests.fields import _PLAIN_REQUIREMENT


@given(st.from_regex(_PLAIN_REQUIREMENT, fullmatch=True))
def test_what_looks_plain_is_a_requirement(text: str) -> None:
    assert Requirement(text).url is None


def test_the_usual_ones_look_plain() -> None:
    for text in ("cmake", "cmake>=3.31,<3.32", "ninja == 1.13", "a.b_c-d!=1 , <= 2"):
        assert Requirement(text)
        assert _PLAIN_REQUIREMENT.fullmatch(text) is not None or " ," in text
    for text in ("a @ file:///x", "a[b]", "a; python_version<'3'", "a~=1", "-a", "a-", "a>=1,", "a==1.*"):
        assert _PLAIN_REQUIREMENT.fullmatch(text) is None
