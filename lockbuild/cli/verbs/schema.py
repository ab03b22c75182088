"""``lockbuild schema``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands


def define(commands: Commands) -> None:
    """Its grammar."""
    schema = commands.add("schema", "print the JSON Schema of a file format")
    schema.add_argument("format", choices=["manifest", "toolchain", "lock", "config"])


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.schema import json_schema

    call.printer.raw(json_schema(call.arguments.format))
    return ExitStatus.OK
