from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.errors import InvalidFileError, Problem, UsageError
from lockbuild.escaping import one_line, plain, plain_json

ANY = st.text(st.characters())  # surrogates too


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no\x1b]0;pwn\x07\x1b[2J", r"no\x1b]0;pwn\x07\x1b[2J"),
        ("\x9b31m\x7f\r", r"\x9b31m\x7f\r"),
        ("a\u202eb\u2066c\u200f\u061c", r"a\u202eb\u2066c\u200f\u061c"),
        ("\u2028\ufeff", r"\u2028\ufeff"),
        ("\udcff\ud800", r"\xff\ud800"),
        ("grün 語 👩‍🚀\tx\ny", "grün 語 👩‍🚀\tx\ny"),
    ],
)
def test_what_does_something_to_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert one_line(text) == shown.replace("\t", r"\t").replace("\n", r"\n")


@given(ANY)
def test_plain_text_has_no_control_characters_and_can_be_encoded(text: str) -> None:
    shown = plain(text)
    shown.encode()
    assert not {character for character in shown if unicodedata.category(character) == "Cc"} - {"\t", "\n"}
    assert not {unicodedata.bidirectional(character) for character in shown} & {
        "RLO",
        "LRO",
        "RLE",
        "LRE",
        "PDF",
        "RLI",
    }
    assert plain(shown) == shown
    assert "\n" not in one_line(text)


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=8))
def test_plain_json_says_the_same(value: object) -> None:
    document = plain_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(document.encode()) == value
    assert plain(document) == document


def test_a_name_cannot_forge_a_line_of_an_error() -> None:
    assert str(UsageError("bad", on="a\nhint: run x")) == "a\\nhint: run x: bad"
    problem = Problem("targets.a\nhint: run x", "unknown key")
    assert str(InvalidFileError("f", [problem])).splitlines() == [
        "f: 1 problem",
        "  targets.a\\nhint: run x: unknown key",
    ]
