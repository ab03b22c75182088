"""git's wildcard patterns as regular expressions: gitignore(5) and glob(7), over the bytes of a path.

``*`` and ``?`` stop at a slash, ``**/``, ``/**/`` and ``/**`` do not, other runs of stars are one star. Brackets take
ranges, classes such as ``[:alpha:]`` (of ASCII), and ``!`` or ``^`` first. A backslash makes what follows literal.

What a star takes is decided once: the shortest that lets the literal part behind it match leaves the most to the star
that follows. So expressions are atomic where more wildcards follow, and no pattern takes exponential time.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

_STAR = b"[^/]*"
_DIRECTORIES = b"(?:[^/]*/)*"
_ANYTHING = b".*"
_SLASH, _BACKSLASH, _CLOSE, _DASH = b"/\\]-"
_CLASSES = {
    "alnum": (string.ascii_letters + string.digits),
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, (*range(0x20), 0x7F))),
    "digit": string.digits,
    "graph": "".join(map(chr, range(0x21, 0x7F))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(0x20, 0x7F))),
    "punct": string.punctuation,
    "space": " \t\n\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}
"""As git has them; vertical tab and form feed are no white space there."""


@dataclass(slots=True)
class _Piece:
    """A wildcard that takes a length of its own (none for the first), and what follows it up to the next."""

    wildcard: bytes
    fixed: bytes = b""


def expression(pattern: bytes) -> bytes:
    """A regular expression that matches a path as a whole (`re.fullmatch`, with DOTALL) where ``pattern`` does.

    ValueError, saying why, for a pattern that can match nothing: git takes it, and ignores it.
    """
    pieces = [_Piece(b"")]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            wildcard, at = _stars(pattern, at)
            pieces.append(_Piece(wildcard))
            continue
        if char == b"[":
            fixed, at = _bracket(pattern, at + 1)
        elif char == b"?":
            fixed, at = b"[^/]", at + 1
        else:
            at += char == b"\\"
            if at == len(pattern):
                raise ValueError("it ends with a backslash that escapes nothing")
            fixed, at = re.escape(pattern[at : at + 1]), at + 1
        pieces[-1].fixed += fixed
    return _joined(pieces)


def _stars(pattern: bytes, start: int) -> tuple[bytes, int]:
    end = start
    while pattern[end : end + 1] == b"*":
        end += 1
    if end - start > 1 and (start == 0 or pattern[start - 1] == _SLASH):
        if pattern.startswith(b"/", end):
            return _DIRECTORIES, end + 1
        if end == len(pattern) or pattern.startswith(b"\\/", end):
            return _ANYTHING, end
    return _STAR, end


def _joined(pieces: list[_Piece]) -> bytes:
    """Pieces up to one that crosses slashes end with a slash, so where they begin decides where they end: they are
    tried at each place once."""
    done, block = b"", b""
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        if piece.wildcard == _STAR:
            block += _STAR + piece.fixed if last else b"(?>%b?%b)" % (_STAR, piece.fixed)
            continue
        if block:
            done += b"(?>%b)" % block
        crosses = any(later.wildcard not in (b"", _STAR) for later in pieces[index + 1 :])
        block = piece.wildcard + (b"?" if piece.wildcard and crosses else b"") + piece.fixed
    return done + block


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The expression of one byte for the set that begins behind the bracket before ``at``, and where it ends."""
    start = at - 1
    members: set[int] = set()
    try:
        negated = pattern[at] in b"!^"
        at = first = at + negated
        previous: int | None = None
        while at == first or pattern[at] != _CLOSE:
            char = pattern[at]
            name = re.compile(rb"\[:([^\]]*):\]").match(pattern, at)
            if name:
                members.update(_CLASSES[name[1].decode("latin-1")].encode())
                at, previous = name.end(), None
                continue
            if char == _DASH and previous is not None and pattern[at + 1] != _CLOSE:
                at += 1 + (pattern[at + 1] == _BACKSLASH)
                members.update(range(previous, pattern[at] + 1))
                previous = None
            else:
                at += char == _BACKSLASH
                previous = pattern[at]
                members.add(previous)
            at += 1
    except IndexError:
        raise ValueError(f"the bracket {_shown(pattern[start:])} has no end") from None
    except KeyError as error:
        raise ValueError(f"there is no class [:{error.args[0]}:]") from None
    taken = (set(range(1, 256)) - members if negated else members) - {_SLASH}
    if not taken:
        raise ValueError(f"no character is in {_shown(pattern[start : at + 1])}")
    return b"[%b]" % b"".join(b"\\x%02x" % byte for byte in sorted(taken)), at + 1


def _shown(pattern: bytes) -> str:
    return pattern.decode("utf-8", "backslashreplace")
