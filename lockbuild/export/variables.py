"""An environment's variables for shells, dotenv files, GitHub Actions, and as JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Literal

from lockbuild.errors import UsageError
from lockbuild.export.subject import Subject, origin

Format = Literal["shell", "dotenv", "github", "json"]
FORMATS: tuple[Format, ...] = ("shell", "dotenv", "github", "json")
IMAGE = "LOCKBUILD_IMAGE"
"""The variable that has the image's reference."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")


def render(subject: Subject, format_: Format) -> str:
    """All variables, sorted, and the image as LOCKBUILD_IMAGE."""
    variables = dict(sorted({**subject.variables, **subject.added, IMAGE: subject.image.reference}.items()))
    return _FORMATS[format_](variables)


def _shell(variables: Mapping[str, str]) -> str:
    """POSIX sh."""
    comments = [f"# {line}" for line in origin("env")]
    return (
        "\n".join([*comments, *(f"export {name}={shlex.quote(value)}" for name, value in variables.items())])
        + "\n"
    )


def _dotenv(variables: Mapping[str, str]) -> str:
    """As Compose, Docker and the libraries of that name read it: a value that is not plain in single quotes."""
    lines = [f"# {line}" for line in origin("env --format dotenv")]
    for name, value in variables.items():
        if "'" in value or "\n" in value:
            raise UsageError(
                "its value has a quote or a line feed, which dotenv files cannot hold alike for all that read them",
                on=f"variable {name}",
                hint="use another --format: shell, github or json",
            )
        lines.append(f"{name}={value}" if _PLAIN.fullmatch(value) else f"{name}='{value}'")
    return "\n".join(lines) + "\n"


def _github(variables: Mapping[str, str]) -> str:
    """What is appended to the file that GITHUB_ENV names ("Workflow commands")."""
    lines = []
    for name, value in variables.items():
        if "\n" not in value:
            lines.append(f"{name}={value}")
            continue
        end = "END"
        while end in value.splitlines():
            end += "_"
        lines += [f"{name}<<{end}", value, end]
    return "\n".join(lines) + "\n"


def _json(variables: Mapping[str, str]) -> str:
    return json.dumps(dict(variables), indent=2, ensure_ascii=False) + "\n"


_FORMATS: dict[Format, Callable[[Mapping[str, str]], str]] = {
    "shell": _shell,
    "dotenv": _dotenv,
    "github": _github,
    "json": _json,
}
