"""Numbers as people read them in messages and results: sizes in one form everywhere, and things that are counted.

The text of a bundle's index is made of these, and bundles are the same bytes from everyone: whoever changes a form
changes bundles.
"""

from __future__ import annotations


def amount(size: float) -> str:
    """A number of bytes, in decimal units."""
    if size < 10_000:
        return f"{size:,.0f} B"
    if size < 1e6:
        return f"{size / 1e3:,.1f} kB"
    return f"{size / 1e6:,.1f} MB" if size < 1e10 else f"{size / 1e9:,.1f} GB"


def count(number: int, what: str) -> str:
    """So many of ``what``, a noun in the singular whose plural ends in s."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
