"""Stanzas of fields, as in ``Release``, ``Packages`` and ``Sources``: deb822(5), Debian Policy 5.1.

An index of Debian is 60 MB of text with 70,000 stanzas of which a lock needs some hundred, so
finding stanzas (by offset) and reading one are separate steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockbuild.errors import IntegrityError

LARGEST_STANZA = 4 << 20
"""Bytes. The largest real one (of a ``Sources`` index) has a few hundred kilobytes."""


class Stanza:
    """The fields of one stanza. Names are case-insensitive; a folded value keeps its line ends."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, str]) -> None:
        self._fields = fields

    def get(self, name: str) -> str | None:
        """The value of field ``name``, stripped, or None."""
        return self._fields.get(name.lower())

    def lines(self, name: str) -> list[str]:
        """The lines of a multi-line field, stripped, empty ones left out; [] where there is no such field."""
        return [line for line in map(str.strip, (self.get(name) or "").split("\n")) if line]

    def words(self, name: str) -> list[str]:
        """The words of a field that is separated by white space; [] where there is no such field."""
        return (self.get(name) or "").split()


def parse_stanza(data: bytes, *, on: str) -> Stanza:
    """Read one stanza. ``on`` names where it stands. IntegrityError where it is not deb822 or too large."""
    if len(data) > LARGEST_STANZA:
        raise IntegrityError(
            f"a stanza has {len(data)} bytes; the most that is read is {LARGEST_STANZA}", on=on
        )
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise IntegrityError("a stanza is not UTF-8", on=on) from None
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        if line.startswith((" ", "\t")):
            if current is None or not line.strip():
                raise IntegrityError(f"a stanza has the stray line {line[:80]!r}", on=on)
            current.append(line)
        elif line.startswith("#") or not line:
            continue
        else:
            name, colon, value = line.partition(":")
            if not colon or not name or name.rstrip() != name or name.lower() in fields:
                raise IntegrityError(f"a stanza has the stray or doubled line {line[:80]!r}", on=on)
            fields[name.lower()] = current = [value]
    return Stanza({name: "\n".join(lines).strip() for name, lines in fields.items()})


def stanza_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """The (start, end) offsets of each stanza; stanzas are separated by empty lines."""
    position, size = 0, len(data)
    while True:
        while position < size and data[position] == 0x0A:
            position += 1
        if position == size:
            return
        end = data.find(b"\n\n", position)
        end = size if end < 0 else end
        yield position, end
        position = end
