from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from lockbuild.errors import InvalidFileError
from lockbuild.model.read import parse_toml
from lockbuild.model.requests.fields import ArchiveUrl, GitUrl


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = " + "[" * 5000, "it has more than 32 levels"),
        ("x = " + "[" * 40 + "]" * 40, "x[0][0]: has more than 32 levels"),
        (".".join("a" * 3000) + " = 1", "a.a.a: has more than 32 levels"),
        ("x = " + "1" * 5000, "a number in it has too many digits"),
        ('steps = ["a", "b\\u0000"]', "steps[1]: must not have a NUL character"),
        ('[targets.t.env]\nA = "\\U00000000"', "targets.t.env.A: must not have a NUL character"),
        ('["a\\u0000\\u001b"]', '"a\\u0000\\u001b": the key must not have a NUL character'),
    ],
)
def test_toml_that_nobody_can_use_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidFileError, match=re.escape(f"f: 1 problem\n  {told}") + "$"):
        parse_toml(text, "f")


def test_levels_that_a_file_may_have() -> None:
    assert parse_toml('x = [[[{ y = ["\\u001b"] }]]]', "f") == {"x": [[[{"y": ["\x1b"]}]]]}


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:x/a.tar", "http://h/a\x1b[2J", "http://h/a\0", "http://h/\u202e"]
)
def test_a_url_that_is_none(url: str) -> None:
    for kind in (ArchiveUrl, GitUrl):
        with pytest.raises(ValidationError, match=f"{re.escape(repr(url))} is not a URL: "):
            TypeAdapter(kind).validate_python(url)


def test_urls() -> None:
    for url in ("http://[::1]:80/a.tar", "https://h/a%20b.tar?x=y", "file:///a b/ü.tar"):
        assert TypeAdapter(ArchiveUrl).validate_python(url) == url
