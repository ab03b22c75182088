"""Results on stdout: text for people, or one JSON object for machines (schema: docs/formats.md, "JSON output")."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.errors import InvalidFileError, LockbuildError

if TYPE_CHECKING:
    from lockbuild.config.effective import Setting
    from lockbuild.model.lock import Lock
    from lockbuild.model.outcome import BuildOutcome, BuiltFile, Comparison, FileComparison
    from lockbuild.store.collect import Collected, Stats
    from lockbuild.store.verify import Damage
    from lockbuild.workflow.changes import PinChange
    from lockbuild.workflow.project import KeyChange, Project
    from lockbuild.workflow.workspace import ProjectPaths


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

    def path(self, path: Path) -> None:
        """One path."""
        self._say({"path": str(path)}, str(path))

    def lock_check(self, paths: ProjectPaths, changes: list[KeyChange]) -> None:
        """Whether a lock is current, and which keys changed if not."""
        value = {
            "current": not changes,
            "changes": [{"key": c.key, "old": c.old, "new": c.new} for c in changes],
        }
        if not changes:
            self._say(value, f"{paths.lock.name} is current", reassurance=True)
            return
        lines = "".join(f"\n  {change}" for change in changes)
        self._say(value, f"{paths.lock.name} does not belong to the manifest; changed:{lines}")

    def lock(self, project: Project, changes: list[PinChange], lock: Lock, *, written: bool) -> None:
        """What locking changed, as a table of old -> new."""
        value = {
            "lock": str(project.paths.lock),
            "written": written,
            "changes": [{"name": c.name, "old": c.old, "new": c.new} for c in changes],
        }
        if not changes:
            self._say(value, f"{project.paths.lock.name}: no pin changes", reassurance=True)
            return
        added = [change for change in changes if change.old is None]
        shown = changes if len(added) < len(changes) or len(changes) <= 20 else []
        lines = _table([(c.name, c.old or "-", c.new or "-") for c in shown])
        done = "wrote" if written else "would write"
        megabytes = sum(source.size or 0 for source in lock.sources) / 1e6
        summary = f"{done} {project.paths.lock.name}: {len(lock.sources)} sources, {megabytes:.0f} MB"
        self._say(value, "\n".join([*lines, summary]))

    def synced(self, summary: Mapping[str, Any]) -> None:
        """What a sync made (`lockbuild.workflow.sync.Synced.summary`)."""
        made = f"made {', '.join(summary['made'])}" if summary["made"] else "nothing to do"
        self._say(summary, f"{summary['platform']} {summary['image']}: {made}", reassurance=True)

    def built(self, results: Iterable[tuple[BuildOutcome, Path]]) -> None:
        """Builds and where their outputs are."""
        values, lines = [], []
        for outcome, directory in results:
            values.append({**_outcome(outcome), "directory": str(directory)})
            lines.append(f"{outcome.target}: {directory} ({outcome.backend}, {outcome.seconds:.1f} s)")
            lines.extend(f"  {file.sha256.hex}  {file.path}" for file in outcome.files)
        self._say({"targets": values}, "\n".join(lines))

    def recorded(self, project: Project, outcomes: Iterable[BuildOutcome]) -> None:
        """Hashes that were written into the lock."""
        values, lines = [], []
        for outcome in outcomes:
            values.append(_outcome(outcome))
            lines.append(f"{outcome.target}: recorded in {project.paths.lock.name}, input {outcome.input}")
            lines.extend(f"  {file.sha256.hex}  {file.path}" for file in outcome.files)
        self._say({"targets": values}, "\n".join(lines))

    def compared(self, comparisons: Iterable[Comparison], *, with_lock: bool) -> None:
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
                    f"  the inputs are not those that the record was made from ({comparison.stale_input}); "
                    "`lockbuild reproduce --record` records anew"
                )
        self._say({"targets": values}, "\n".join(lines))

    def damages(self, damages: list[Damage], *, repaired: bool) -> None:
        """What is damaged in the store."""
        value = {"damaged": [{"kind": d.kind, "path": str(d.path), "reason": d.reason} for d in damages]}
        if not damages:
            self._say(value, "every blob and tree has its digest", reassurance=True)
            return
        done = "removed; run `lockbuild sync` to bring it back" if repaired else "--repair removes it"
        self._say(value, "\n".join([*(f"{d.kind} {d.path}: {d.reason}" for d in damages), done]))

    def collected(self, collected: Collected, *, dry_run: bool) -> None:
        """What a garbage collection freed."""
        value = {
            "blobs": [str(digest) for digest in collected.blobs],
            "trees": [str(digest) for digest in collected.trees],
            "bytes": collected.freed,
            "dry_run": dry_run,
        }
        done = "would free" if dry_run else "freed"
        self._say(
            value,
            f"{done} {collected.freed / 1e6:.1f} MB in {len(collected.blobs)} blobs and {len(collected.trees)} trees",
        )

    def stats(self, root: Path, stats: Stats) -> None:
        """What is in the store."""
        value = {
            "store": str(root),
            "blobs": stats.blobs,
            "blob_bytes": stats.blob_bytes,
            "trees": stats.trees,
            "tree_bytes": stats.tree_bytes,
        }
        self._say(
            value,
            f"{root}\n  {stats.blobs} blobs, {stats.blob_bytes / 1e6:.1f} MB\n"
            f"  {stats.trees} trees, {stats.tree_bytes / 1e6:.1f} MB",
        )

    def config_path(self, path: Path) -> None:
        """Where the configuration is read from."""
        self._say({"path": str(path), "exists": path.is_file()}, str(path))

    def config(self, path: Path, settings: list[Setting]) -> None:
        """The configuration that is in force."""
        value = {
            "path": str(path),
            "exists": path.is_file(),
            "settings": [{"key": s.key, "value": s.value, "origin": s.origin} for s in settings],
        }
        lines = [f"{path}{'' if path.is_file() else ' (there is no such file)'}"]
        width = max(len(setting.origin) for setting in settings)
        for setting in settings:
            shown = "none" if setting.value is None else json.dumps(setting.value, ensure_ascii=False)
            lines.append(f"  {setting.origin:<{width}}  {setting.key} = {shown}")
        self._say(value, "\n".join(lines))

    def _say(self, value: Mapping[str, Any], text: str, *, reassurance: bool = False) -> None:
        if self._json:
            _write_json(value)
        elif not (reassurance and self._quiet):
            sys.stdout.write(text + "\n")


def _write_json(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _file(file: BuiltFile | None) -> dict[str, Any] | None:
    return None if file is None else {"path": file.path, "size": file.size, "sha256": file.sha256.hex}


def _outcome(outcome: BuildOutcome) -> dict[str, Any]:
    return {
        "target": outcome.target,
        "input": str(outcome.input),
        "backend": outcome.backend,
        "reproducible": outcome.reproducible,
        "seconds": round(outcome.seconds, 3),
        "files": [_file(file) for file in outcome.files],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    expected = "recorded" if comparison.claimed_by is None else "claimed"
    return {
        "target": comparison.target,
        "same": comparison.same,
        "claimed_by": comparison.claimed_by,
        "decisive": comparison.decisive,
        "stale_input": None if comparison.stale_input is None else str(comparison.stale_input),
        "files": [
            {
                "path": file.path,
                "verdict": str(file.verdict),
                expected: _file(file.recorded),
                "found": _file(file.found),
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
        return [f"  same       {file.path}  {file.found.size} bytes  {file.found.sha256.hex}"]
    lines = [f"  {file.verdict:<10} {file.path}"]
    for name, side in ((expected, file.recorded), ("found", file.found)):
        told = f"{side.size} bytes  {side.sha256.hex}" if side else "no such file"
        lines.append(f"    {name:<8} {told}")
    if file.first_difference is not None:
        lines.append(f"    first difference at byte {file.first_difference}")
    lines.extend(f"    {hint}" for hint in file.hints)
    return lines


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    name = max(len(row[0]) for row in rows)
    old = max(len(row[1]) for row in rows)
    return [f"  {row[0]:<{name}}  {row[1]:<{old}}  ->  {row[2]}" for row in rows]
