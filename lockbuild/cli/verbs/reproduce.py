"""``lockbuild reproduce``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.cli.outcomes import file_value, outcome_value
from lockbuild.errors import ExitStatus, UsageError
from lockbuild.escaping import one_line

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.model.outcome import BuildOutcome, Comparison, FileComparison
    from lockbuild.workflow.project import Project


def define(commands: Commands) -> None:
    """Its grammar."""
    reproduce = commands.add("reproduce", "build again and compare")
    reproduce.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    mode = reproduce.add_mutually_exclusive_group()
    mode.add_argument("--check-hash", action="store_true", help="compare with the lock (the default)")
    mode.add_argument("--record", action="store_true", help="write the outputs' hashes into the lock")
    mode.add_argument("--twice", action="store_true", help="build two times and compare the two")
    reproduce.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="with --check-hash: keep the outputs here"
    )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow import reproduce
    from lockbuild.workflow.session import choose_targets

    project = call.project()
    targets = choose_targets(project.paths, project.manifest.project.targets, call.arguments.targets)
    if call.arguments.output is not None and (call.arguments.record or call.arguments.twice):
        raise UsageError("-o goes with --check-hash")
    if call.arguments.record:
        outcomes = reproduce.record(call.workspace, project, targets)
        call.progress.close()
        _print_recorded(call.printer, project, outcomes)
        return ExitStatus.OK
    if call.arguments.twice:
        comparisons = reproduce.twice(call.workspace, project, targets)
    else:
        comparisons = reproduce.check_hash(call.workspace, project, targets, call.output())
    call.progress.close()
    _print_compared(call.printer, comparisons, with_lock=not call.arguments.twice)
    same = all(comparison.same for comparison in comparisons if comparison.decisive)
    return ExitStatus.OK if same else ExitStatus.DIFFERENT


def _print_recorded(printer: Printer, project: Project, outcomes: Iterable[BuildOutcome]) -> None:
    """Hashes that were written into the lock."""
    values, lines = [], []
    for outcome in outcomes:
        values.append(outcome_value(outcome))
        lines.append(f"{outcome.target}: recorded in {project.paths.lock.name}, input {outcome.input}")
        lines.extend(f"  {file.sha256.hex}  {one_line(file.path)}" for file in outcome.files)
    printer.say({"targets": values}, "\n".join(lines))


def _print_compared(printer: Printer, comparisons: Iterable[Comparison], *, with_lock: bool) -> None:
    """Each output: same or not, and where not what differs."""
    values, lines = [], []
    for comparison in comparisons:
        values.append(_comparison(comparison))
        lines.append(f"{comparison.target}: {_verdict(comparison, with_lock=with_lock)}")
        expected = "recorded" if comparison.claimed_by is None else "claimed"
        for file in comparison.files:
            lines.extend(_comparison_lines(file, expected))
        if comparison.stale_input is not None:
            lines.append(
                f"  the inputs changed since the record was made: {comparison.stale_input} -> {comparison.input}\n"
                "    source, locked trees, variables or steps: a record has only the digest of them all, so compare "
                "with the commit that recorded it; `lockbuild reproduce --record` records anew"
            )
    printer.say({"targets": values}, "\n".join(lines))


def _comparison(comparison: Comparison) -> dict[str, Any]:
    expected = "recorded" if comparison.claimed_by is None else "claimed"
    return {
        "target": comparison.target,
        "same": comparison.same,
        "claimed_by": comparison.claimed_by,
        "decisive": comparison.decisive,
        "stale_input": None if comparison.stale_input is None else str(comparison.stale_input),
        "input": None if comparison.input is None else str(comparison.input),
        "files": [
            {
                "path": file.path,
                "verdict": str(file.verdict),
                expected: file_value(file.recorded),
                "found": file_value(file.found),
                "first_difference": file.first_difference,
                "hints": list(file.hints),
            }
            for file in comparison.files
        ],
    }


def _verdict(comparison: Comparison, *, with_lock: bool) -> str:
    """In words: the same or not, and as what."""
    if comparison.claimed_by is not None:
        against, whose = (
            f"as claimed by {comparison.claimed_by}",
            f" from what {comparison.claimed_by} claims",
        )
    else:
        against, whose = "as the lock records" if with_lock else "twice the same", ""
    if comparison.same:
        return f"reproduced, {against}"
    differing = sum(file.verdict != "same" for file in comparison.files)
    return f"{differing} of {len(comparison.files)} outputs differ{whose}"


def _comparison_lines(file: FileComparison, expected: str) -> list[str]:
    if file.verdict == "same":
        assert file.found is not None
        return [f"  same       {one_line(file.path)}  {file.found.size} bytes  {file.found.sha256.hex}"]
    lines = [f"  {file.verdict:<10} {one_line(file.path)}"]
    for name, side in ((expected, file.recorded), ("found", file.found)):
        told = f"{side.size} bytes  {side.sha256.hex}" if side else "no such file"
        lines.append(f"    {name:<8} {told}")
    if file.first_difference is not None:
        lines.append(f"    first difference at byte {file.first_difference}")
    lines.extend(f"    {hint}" for hint in file.hints)
    return lines
