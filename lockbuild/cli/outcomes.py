"""Builds and their outputs as JSON (docs/formats.md, "JSON output")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockbuild.model.outcome import BuildOutcome, BuiltFile


def file_value(file: BuiltFile | None) -> dict[str, Any] | None:
    """One output; none where there is no such file."""
    return None if file is None else {"path": file.path, "size": file.size, "sha256": file.sha256.hex}


def outcome_value(outcome: BuildOutcome) -> dict[str, Any]:
    """What a build came to."""
    return {
        "target": outcome.target,
        "input": str(outcome.input),
        "backend": outcome.backend,
        "reproducible": outcome.reproducible,
        "seconds": round(outcome.seconds, 3),
        "files": [file_value(file) for file in outcome.files],
    }
