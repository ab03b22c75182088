"""Results on stdout: text for people, or one JSON object for machines (schema: docs/formats.md, "JSON output")."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockbuild.cli.streams import write_result
from lockbuild.errors import InvalidFileError, LockbuildError
from lockbuild.escaping import plain, plain_json


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
        if error.sources:
            value["sources"] = [{"purl": s.purl, "size": s.size, "what": s.what} for s in error.sources]
        _write_json({"error": value})
    else:
        sys.stdout.flush()
        sys.stderr.write(plain(f"error: {error}\n"))
        sys.stderr.flush()


class Printer:
    """Prints one command's result. ``quiet`` leaves out what only reassures."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._json = as_json
        self._quiet = quiet

    def raw(self, text: str) -> None:
        """Text that is data itself, as it is."""
        write_result(text.encode("utf-8", "surrogateescape"))

    def path(self, value: Mapping[str, Any], path: Path) -> None:
        """``value`` with --json, else ``path``, as it is: for scripts."""
        if self._json:
            _write_json(value)
        else:
            write_result(os.fsencode(path) + b"\n")

    def say(self, value: Mapping[str, Any], text: str, *, reassurance: bool = False) -> None:
        """``value`` with --json, else ``text``, which may be left out where it is ``reassurance``."""
        if self._json:
            _write_json(value)
        elif not (reassurance and self._quiet):
            sys.stdout.write(plain(text) + "\n")


def _write_json(value: Mapping[str, Any]) -> None:
    # UTF-8 whatever the locale (RFC 8259, section 8.1).
    write_result(plain_json(json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
