"""Numbers as people read them."""

from __future__ import annotations

import pytest

from lockbuild.amounts import amount, count


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (9_999, "9,999 B"),
        (10_000, "10.0 kB"),
        (149_100, "149.1 kB"),
        (1_000_000, "1.0 MB"),
        (1_049_700_000, "1,049.7 MB"),
        (10_000_000_000, "10.0 GB"),
        (2e12, "2,000.0 GB"),
        (1234.5678, "1,235 B"),
    ],
)
def test_a_size_has_one_form(size: float, shown: str) -> None:
    assert amount(size) == shown


def test_one_is_no_plural() -> None:
    assert [count(number, "tree") for number in (0, 1, 2, 1000)] == [
        "0 trees",
        "1 tree",
        "2 trees",
        "1,000 trees",
    ]
