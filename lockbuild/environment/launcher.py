"""The programs that start what a wheel offers: "Entry points specification" (packaging.python.org).

A launcher is a few lines of Python that are the same on every machine.
"""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass

from lockbuild.environment.record import broken

_GROUPS = ("console_scripts", "gui_scripts")
_REFERENCE = re.compile(
    r"\s*(?P<module>\w+(?:\.\w+)*)\s*:\s*(?P<attribute>\w+(?:\.\w+)*)\s*(?:\[[^\]]*\])?\s*"
)
_NAME = re.compile(r"[^/\\\0\s][^/\\\0]*")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A command ``name`` that calls ``attribute`` (dotted) of ``module``."""

    name: str
    module: str
    attribute: str


def entry_points(text: str, *, wheel: str) -> list[EntryPoint]:
    """The commands in an ``entry_points.txt``, sorted by name. IntegrityError where it is not valid."""
    parser = configparser.RawConfigParser(delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise broken(wheel, f"entry_points.txt is not valid: {error.message.splitlines()[0]}") from error
    found = {}
    for group in _GROUPS:
        if not parser.has_section(group):
            continue
        for name, reference in parser.items(group):
            match = _REFERENCE.fullmatch(reference)
            if match is None or not _NAME.fullmatch(name) or name in (".", ".."):
                raise broken(wheel, f"entry_points.txt has a command that is not valid: {name} = {reference}")
            found[name] = EntryPoint(name, match["module"], match["attribute"])
    return [found[name] for name in sorted(found)]


def launcher(python: str, library: str, entry: EntryPoint) -> bytes:
    """A program for the interpreter ``python`` that finds packages in ``library`` and calls ``entry``."""
    first = entry.attribute.partition(".")[0]
    return (
        f"#!{python}\n"
        "import sys\n\n"
        f"sys.path.insert(0, {library!r})\n"
        f"from {entry.module} import {first}\n\n"
        f"sys.exit({entry.attribute}())\n"
    ).encode()


def script_launcher(python: str, library: str, script: str) -> bytes:
    """A program that runs the Python file ``script`` with packages in ``library``."""
    return (
        f"#!{python}\n"
        "import runpy\n"
        "import sys\n\n"
        f"sys.path.insert(0, {library!r})\n"
        f"runpy.run_path({script!r}, run_name='__main__')\n"
    ).encode()
