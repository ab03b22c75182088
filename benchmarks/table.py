"""What was measured, as values, as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison. ``ours`` and ``theirs`` are medians in ``unit``; less is better.

    ``at_most`` bounds ``ours / theirs``, ``limit`` bounds ``ours``; a row without either only informs.
    ``runs`` keeps every single measurement, ``notes`` what a reader must know to judge it.
    """

    what: str
    peer: str
    unit: str
    ours: float
    theirs: float | None = None
    at_most: float | None = None
    limit: float | None = None
    notes: tuple[str, ...] = ()
    runs: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times the peer's value ours is."""
        return None if self.theirs is None else self.ours / self.theirs

    @property
    def ok(self) -> bool | None:
        """Whether every target is met; None where there is none."""
        verdicts = []
        if self.at_most is not None:
            verdicts.append(self.ratio is not None and self.ratio <= self.at_most)
        if self.limit is not None:
            verdicts.append(self.ours <= self.limit)
        return all(verdicts) if verdicts else None

    def value(self) -> dict[str, Any]:
        """For JSON: numbers rounded to what the clock can tell."""
        value = asdict(self)
        value["notes"] = list(self.notes)
        value["runs"] = {name: [_rounded(run) for run in runs] for name, runs in self.runs.items()}
        value["ours"] = _rounded(self.ours)
        value["theirs"] = None if self.theirs is None else _rounded(self.theirs)
        value["ratio"] = None if self.ratio is None else round(self.ratio, 3)
        value["ok"] = self.ok
        return value


def read(value: dict[str, Any]) -> list[Row]:
    """The rows of a kept result."""
    derived = ("ratio", "ok")
    return [
        Row(**{key: item for key, item in row.items() if key not in derived} | {"notes": tuple(row["notes"])})
        for row in value["rows"]
    ]


def render(rows: Sequence[Row]) -> str:
    """The table, as Markdown that reads well on a terminal, and the notes below it."""
    head = ("what", "ours", "peer", "ratio", "target", "ok")
    notes = list(dict.fromkeys(note for row in rows for note in row.notes))
    lines = [head, *(_line(row, notes) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    text = "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |\n"
        for line in (head, rule, *lines[1:])
    )
    return text + "".join(f"\n[{number}] {note}\n" for number, note in enumerate(notes, 1))


def _line(row: Row, notes: Sequence[str]) -> tuple[str, ...]:
    marks = "".join(f" [{notes.index(note) + 1}]" for note in row.notes)
    targets = []
    if row.at_most is not None:
        targets.append(f"≤ {row.at_most:g} ×")
    if row.limit is not None:
        targets.append(f"≤ {row.limit:g} {row.unit}")
    return (
        row.what + marks,
        _shown(row.ours, row.unit),
        row.peer if row.theirs is None else f"{_shown(row.theirs, row.unit)} ({row.peer})",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        ", ".join(targets),
        "" if row.ok is None else "yes" if row.ok else "NO",
    )


def _shown(value: float, unit: str) -> str:
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def _rounded(value: float) -> float:
    return round(value, 4)
