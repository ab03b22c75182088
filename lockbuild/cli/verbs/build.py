"""``lockbuild build``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.cli.outcomes import outcome_value
from lockbuild.errors import ExitStatus
from lockbuild.escaping import one_line

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.model.outcome import BuildOutcome


def define(commands: Commands) -> None:
    """Its grammar."""
    build = commands.add("build", "build in the sandbox and put the outputs into dist")
    build.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    build.add_argument("-o", "--output", metavar="DIR", type=Path, help="where outputs go (default: dist)")


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.build import build

    results = build(call.workspace, call.paths(), call.arguments.targets, call.output())
    call.progress.close()
    _print_built(call.printer, results)
    return ExitStatus.OK


def _print_built(printer: Printer, results: Iterable[tuple[BuildOutcome, Path]]) -> None:
    """Builds and where their outputs are."""
    values, lines = [], []
    for outcome, directory in results:
        values.append({**outcome_value(outcome), "directory": str(directory)})
        lines.append(f"{outcome.target}: {directory} ({outcome.backend}, {outcome.seconds:.1f} s)")
        lines.extend(f"  {file.sha256.hex}  {one_line(file.path)}" for file in outcome.files)
    printer.say({"targets": values}, "\n".join(lines))
