"""Results on stdout: text for people, or one JSON object for machines (schema: docs/formats.md, "JSON output")."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from lockbuild.errors import InvalidFileError, LockbuildError


def print_error(error: LockbuildError, *, as_json: bool) -> None:
    """An error on stderr as text; with --json as an object on stdout."""
    if as_json:
        value: dict[str, Any] = {
            "what": error.what,
            "on": error.on,
            "hint": error.hint,
            "status": int(error.status),
        }
        if isinstance(error, InvalidFileError):
            value["problems"] = [{"key": p.key, "message": p.message} for p in error.problems]
        _write_json({"error": value})
    else:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()


class Printer:
    """Prints one command's result. ``quiet`` leaves out what only reassures."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._json = as_json
        self._quiet = quiet

    def raw(self, text: str) -> None:
        """Text that is data itself."""
        sys.stdout.write(text)

    def say(self, value: Mapping[str, Any], text: str, *, reassurance: bool = False) -> None:
        """``value`` with --json, else ``text``, which ``reassurance`` may be left out."""
        if self._json:
            _write_json(value)
        elif not (reassurance and self._quiet):
            sys.stdout.write(text + "\n")


def _write_json(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
