"""A command that was called: its arguments, and what every verb works with."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.cli.progress import Progress
from lockbuild.cli.result import Printer
from lockbuild.errors import UsageError
from lockbuild.store import Store
from lockbuild.workflow.workspace import MANIFEST_NAME, ProjectPaths, Workspace, find_project

if TYPE_CHECKING:
    from lockbuild.model.platform import Platform
    from lockbuild.workflow.project import Project


@dataclass(frozen=True, slots=True)
class Call:
    """What a verb gets. `progress` is to be closed before anything is printed."""

    arguments: argparse.Namespace
    workspace: Workspace
    printer: Printer
    progress: Progress

    def paths(self) -> ProjectPaths:
        """The files of the project that --project names, or of the one that the working directory is in."""
        if self.arguments.project is None:
            return find_project(Path.cwd())
        named = self.arguments.project.absolute()
        paths = ProjectPaths(named.parent if named.name == MANIFEST_NAME and named.is_file() else named)
        if not os.path.lexists(paths.manifest):
            said = f"there is no {MANIFEST_NAME} in it" if named.is_dir() else "there is no such directory"
            raise UsageError(
                said, on=str(named), hint="--project names the directory of a project, or its manifest"
            )
        return paths

    def project(self) -> Project:
        """That project, read."""
        from lockbuild.workflow.project import load_project

        return load_project(self.paths())

    def output(self) -> Path | None:
        """-o, absolute. UsageError for -, which elsewhere means standard output."""
        output: Path | None = self.arguments.output
        if output == Path("-"):
            raise UsageError(
                "-o - names nothing: results go to standard output, files do not",
                hint="name a file or directory, by its whole path if it is called so",
            )
        return None if output is None else output.absolute()

    def output_file(self) -> Path | None:
        """The same, of a file. UsageError where its directory is not there: before work begins."""
        output = self.output()
        if output is not None and not output.parent.is_dir():
            raise UsageError(
                f"there is no directory {output.parent}",
                on=f"-o {self.arguments.output}",
                hint=f"make the directory (mkdir -p {shlex.quote(str(output.parent))}), or name another place",
            )
        return output

    def platforms(self) -> list[Platform]:
        """Those that --platform names."""
        from lockbuild.model.platform import Platform

        try:
            return [Platform.parse(text) for text in self.arguments.platform or ()]
        except ValueError as error:
            raise UsageError(f"--platform: {error}") from None


def run(arguments: argparse.Namespace) -> int:
    """Run the command that ``arguments`` name; its exit status."""
    printer = Printer(as_json=arguments.json, quiet=arguments.quiet)
    with Progress(quiet=arguments.quiet, verbose=arguments.verbose) as progress:
        workspace = Workspace(
            store=Store(store_directory(arguments.store, os.environ)),
            environ=dict(os.environ),
            report=progress,
            now=datetime.now(UTC),
            offline=arguments.offline,
            backend_name=arguments.backend,
        )
        with closing(workspace):
            return int(arguments.runs(Call(arguments, workspace, printer, progress)))


def store_directory(chosen: Path | None, environ: Mapping[str, str]) -> Path:
    """--store, else LOCKBUILD_STORE, else the platform's cache directory."""
    if chosen is not None:
        return chosen.absolute()
    if environ.get("LOCKBUILD_STORE"):
        return Path(environ["LOCKBUILD_STORE"]).absolute()
    import platformdirs

    return platformdirs.user_cache_path("lockbuild") / "store"
