"""Text of strangers as a terminal may have it: names in archives and manifests, labels of images, what servers say.

A control character tells a terminal to do something (ECMA-48), and one of direction shows a text in another order than
it has (Unicode Standard Annex 9). Both are shown as the escapes that Python and JSON have for them.
"""

from __future__ import annotations

import re

_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u2028\u2029\ufeff\ud800-\udfff]"  # separators of lines, the byte order mark, bytes that are not UTF-8
)
_HARMFUL_IN_A_LINE = re.compile(f"[\t\n]|{_HARMFUL.pattern}")
_NAMED = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def plain(text: str) -> str:
    """``text`` without characters that do something to a terminal; lines and tabs stay."""
    return _HARMFUL.sub(_escape, text)


def one_line(text: str) -> str:
    """``text``, as `plain`, on one line: for a value that stands among others."""
    return _HARMFUL_IN_A_LINE.sub(_escape, text)


def plain_json(document: str) -> str:
    """A JSON ``document`` that says the same and is plain; it can always be encoded."""
    # Outside of strings JSON has none of these, but the line ends that it is laid out with.
    return _HARMFUL.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python has a byte of a file's name that is not UTF-8 (PEP 383)
        code -= 0xDC00
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
