"""Parts of answers, and conditions: RFC 9110."""

from __future__ import annotations

import pytest

from lockbuild.serve.conditions import deliver
from lockbuild.serve.message import Answer, Data

ANSWER = Answer(Data(b"0123456789"), etag="tag")


def asked(method: str = "GET", **headers: str) -> tuple[int, int, int | None]:
    delivery = deliver(ANSWER, method, {name.replace("_", "-"): value for name, value in headers.items()})
    return delivery.status, delivery.start, delivery.count


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (206, 0, 1)),
        ("bytes=2-", (206, 2, 8)),
        ("bytes=2-99", (206, 2, 8)),
        ("bytes=-3", (206, 7, 3)),
        ("bytes=-99", (206, 0, 10)),
        ("BYTES = 9 - 9", (206, 9, 1)),
        ("bytes=10-", (416, 0, 0)),
        ("bytes=-0", (416, 0, 0)),
        ("bytes=5-2", (200, 0, 10)),
        ("bytes=0-1,3-4", (200, 0, 10)),
        ("bytes=-", (200, 0, 10)),
        ("lines=1-2", (200, 0, 10)),
        (f"bytes={'9' * 40}-", (200, 0, 10)),
    ],
)
def test_ranges(header: str, expected: tuple[int, int, int]) -> None:
    assert asked(range=header) == expected


def test_what_a_part_is_called() -> None:
    assert deliver(ANSWER, "GET", {"range": "bytes=2-3"}).headers["Content-Range"] == "bytes 2-3/10"
    assert deliver(ANSWER, "GET", {"range": "bytes=10-"}).headers["Content-Range"] == "bytes */10"
    assert deliver(ANSWER, "GET", {"range": "bytes=2-3"}).headers["Content-Length"] == "2"


def test_parts_only_of_the_same() -> None:
    assert asked(range="bytes=1-1", if_range='"tag"') == (206, 1, 1)
    assert asked(range="bytes=1-1", if_range='W/"tag"') == (200, 0, 10)
    assert asked(range="bytes=1-1", if_range="Sun, 06 Nov 1994 08:49:37 GMT") == (200, 0, 10)
    assert asked("HEAD", range="bytes=1-1") == (200, 0, 10)


def test_conditions() -> None:
    assert asked(if_none_match='"other", W/"tag"') == (304, 0, 0)
    assert asked("HEAD", if_none_match="*")[0] == 304
    assert asked(if_none_match='"other"')[0] == 200
    assert asked(if_match='"other"')[0] == 412
    assert asked(if_match='W/"tag"')[0] == 412
    assert asked(if_match='"tag"')[0] == 200
    assert asked(if_none_match='"tag"', range="bytes=0-1")[0] == 304


def test_what_has_no_tag_has_no_parts() -> None:
    delivery = deliver(Answer(Data(b"0123")), "GET", {"range": "bytes=0-1", "if-none-match": "*"})
    assert (delivery.status, delivery.count) == (200, 4)
    assert "Accept-Ranges" not in delivery.headers
