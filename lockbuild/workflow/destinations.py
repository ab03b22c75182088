"""Where outputs go, and that they do not become source there: a build must not change what the next one is made from.

What is source is for git's ignore rules to say alone, so that every clone agrees. Outputs that land in a source
directory are therefore ignored by these rules: a ``.gitignore`` of their own says so where no other does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lockbuild.build.ignore import is_source, source_below
from lockbuild.build.outputs import ELSEWHERE, IGNORE, check_destination, publish
from lockbuild.errors import UsageError
from lockbuild.events import Note, Reporter
from lockbuild.model.outcome import BuiltFile
from lockbuild.workflow.own_directory import OwnDirectory
from lockbuild.workflow.workspace import ProjectPaths

_HINT = "name a directory of its own for outputs with -o DIR"


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where the outputs of a project's ``targets`` go: ``chosen``, else dist; with several targets each has a directory
    there. ``reads`` are the directories that builds read: sources of targets, and those under ``[sources]``."""

    paths: ProjectPaths
    targets: Collection[str]
    reads: frozenset[Path]
    chosen: Path | None

    def of(self, target: str) -> Path:
        """The directory for the outputs of ``target``."""
        root = self.chosen or self.paths.outputs
        return root if len(self.targets) == 1 else root / target

    def check(self, targets: Iterable[str], store: Path) -> None:
        """UsageError where the outputs of ``targets`` cannot go where they shall: source, the ``store`` or what
        somebody else put there stands in the way."""
        if self.chosen is not None:
            self._check_chosen(self.chosen.resolve(), store.resolve())
        for target in targets:
            self._check_way(target)
            check_destination(self.of(target))

    def publish(self, target: str, staged: Path, files: Collection[BuiltFile], report: Reporter) -> Path:
        """Put the outputs of ``target`` in place from ``staged``, as `lockbuild.build.outputs.publish`; where."""
        destination = self.of(target)
        self._check_way(target)
        hide = self._becomes_source(destination.resolve())
        known = (destination / IGNORE).exists()
        publish(staged, files, destination, ignored=hide)
        if hide and not known:
            report(Note(f"{destination}: a {IGNORE} there keeps outputs from being source of the next build"))
        return destination

    def _check_way(self, target: str) -> None:
        """UsageError where the directory is below the project, and a link of the project leads elsewhere instead."""
        destination = self.of(target)
        if destination.is_relative_to(self.paths.directory):
            names = destination.relative_to(self.paths.directory).parts
            OwnDirectory(self.paths.directory, names, f", {ELSEWHERE}").check()

    def _check_chosen(self, chosen: Path, store: Path) -> None:
        if chosen.is_relative_to(store):
            raise UsageError("outputs cannot go there: it is in the store", on=str(chosen), hint=_HINT)
        own = frozenset(self.of(target).resolve() for target in self.targets)
        for directory in sorted(self._read()):
            if directory.is_relative_to(chosen):
                raise UsageError(
                    f"outputs cannot go there: {directory} is in it, which is source"
                    if directory != chosen
                    else "outputs cannot go there: it is source",
                    on=str(chosen),
                    hint=_HINT,
                )
            if not chosen.is_relative_to(directory):
                continue
            found = next(source_below(directory, chosen, self._never_source() | own), None)
            if found is not None:
                raise UsageError(
                    f"outputs cannot go there: it holds source ({found})", on=str(chosen), hint=_HINT
                )

    def _becomes_source(self, destination: Path) -> bool:
        return any(
            destination.is_relative_to(directory) and is_source(directory, destination, self._never_source())
            for directory in self._read()
        )

    def _read(self) -> set[Path]:
        return {directory.resolve() for directory in (self.paths.directory, *self.reads)}

    def _never_source(self) -> frozenset[Path]:
        return replace(self.paths, directory=self.paths.directory.resolve()).never_source(None)
