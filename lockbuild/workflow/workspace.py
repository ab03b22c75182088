"""What every verb works with: the store, the configuration and how to report; and where a project's files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lockbuild.errors import UsageError
from lockbuild.events import Note, Reporter
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from lockbuild.workflow.own_directory import OwnDirectory

if TYPE_CHECKING:
    from lockbuild.config import Config
    from lockbuild.sandbox.backend import Backend
    from lockbuild.transport.documents import Documents
    from lockbuild.transport.git.repositories import GitRepositories
    from lockbuild.transport.http import Http
    from lockbuild.transport.registry.registries import Registries
    from lockbuild.workflow.cache import Cache

MANIFEST_NAME = "lockbuild.toml"
LOCK_NAME = "lockbuild.lock"
STATE_NAME = ".lockbuild"
OUTPUT_NAME = "dist"
BackendName = Literal["auto", "docker", "bubblewrap", "host"]


@dataclass(frozen=True)
class Workspace:
    """The surroundings of a command, read once by the command line and passed down."""

    store: Store
    environ: Mapping[str, str]
    report: Reporter
    now: datetime
    offline: bool = False
    backend_name: BackendName = "auto"
    recorder: Documents | None = None
    """Takes down what is read to resolve, for another site."""

    @cached_property
    def config(self) -> Config:
        """The user's configuration, read when first needed."""
        from lockbuild.config import load

        return load(self.environ)

    @cached_property
    def documents(self) -> Documents | None:
        """What was kept for resolving without a network, where this is so."""
        if self.recorder is not None or not self.offline:
            return self.recorder
        from lockbuild.workflow.documents import StoredDocuments

        kept = StoredDocuments(self.store)
        if not kept.catalogue:
            return None
        self.report(Note("indexes come out of what a bundle brought, where it brought them", "debug"))
        return kept

    @cached_property
    def http(self) -> Http:
        """The one HTTP client of the command."""
        from lockbuild.transport.http import Http

        return Http(self.config, offline=self.offline, report=self.report, documents=self.documents)

    @cached_property
    def registries(self) -> Registries:
        """The one client of image registries."""
        from lockbuild.transport.registry.registries import Registries

        return Registries(self.http, self.config, environ=self.environ, report=self.report)

    @cached_property
    def cache(self) -> Cache | None:
        """The registries that serve as a cache; None where the configuration names none."""
        from lockbuild.config import mentions

        if not mentions(self.environ, "cache"):
            return None
        if not self.config.cache.read and self.config.cache.write is None:
            return None
        from lockbuild.workflow.cache import Cache

        return Cache(self.config, self.registries, self.store, self.report, offline=self.offline)

    @cached_property
    def git(self) -> GitRepositories:
        """The git repositories that were met, cached in the store."""
        cache = self.store.root / "git"
        if self.documents is not None:
            from lockbuild.transport.git.kept import KeptRepositories, RecordingRepositories

            kind = RecordingRepositories if self.documents.recording else KeptRepositories
            return kind(cache, self.config, self.documents, report=self.report)
        from lockbuild.transport.git.repositories import GitRepositories

        return GitRepositories(cache, self.config, offline=self.offline, report=self.report)

    def hold_store(self) -> None:
        """Keep a garbage collection by another process from taking what this command uses, until `close`."""
        _ = self._holding

    @cached_property
    def _holding(self) -> ExitStack:
        exits = ExitStack()
        waiting = "waiting for a garbage collection or repair of the store"
        exits.enter_context(self.store.in_use(waiting=lambda: self.report(Note(waiting))))
        return exits

    def close(self) -> None:
        """End the connections that were opened, and let go of the store."""
        if "http" in self.__dict__:
            self.http.close()
        if "_holding" in self.__dict__:
            self._holding.close()

    @cached_property
    def backend(self) -> Backend:
        """The sandbox that was asked for, or the best that there is."""
        from lockbuild.sandbox.select import choose

        scratch = self.store.root / "work"
        return choose(self.backend_name, self.environ, scratch=scratch, report=self.report)

    @property
    def platform(self) -> Platform:
        """The platform of this machine, which is the one that builds run on."""
        return Platform.of_machine(os.uname().machine)


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """Where the files of a project are. ``state`` holds logs and failed builds; git ignores it by itself.

    With ``toolchain`` it is no project, but the toolchain in that file, whose lock is ``lock_file``.
    """

    directory: Path
    toolchain: Path | None = None
    lock_file: Path | None = None

    @property
    def manifest(self) -> Path:
        """lockbuild.toml; the toolchain's manifest, where it is that."""
        return self.toolchain or self.directory / MANIFEST_NAME

    @property
    def lock(self) -> Path:
        """lockbuild.lock, where it is not called otherwise."""
        return self.lock_file or self.directory / LOCK_NAME

    @property
    def state(self) -> OwnDirectory:
        """.lockbuild."""
        return OwnDirectory(self.directory, (STATE_NAME,))

    def make_state(self) -> OwnDirectory:
        """`state`, there and ignored by git. UsageError where a link or a file stands in its place."""
        self.state.make()
        self.state.add(".gitignore", b"*\n")
        return self.state

    @property
    def outputs(self) -> Path:
        """dist: where outputs go unless another place is chosen."""
        return self.directory / OUTPUT_NAME

    def never_source(self, destination: Path | None) -> frozenset[Path]:
        """What of the project is no input of a build: its manifest and lock, its state, its outputs.

        dist is none even where outputs go to another ``destination``: an earlier build may have left it.
        """
        own = {self.manifest, self.lock, self.directory / STATE_NAME, self.outputs}
        if destination is not None:
            own |= {destination, destination.resolve()}
        return frozenset(own)


def find_project(start: Path) -> ProjectPaths:
    """The project that ``start`` is in: the nearest directory upwards with a manifest (or what is called so)."""
    for directory in (start, *start.parents):
        if os.path.lexists(directory / MANIFEST_NAME):
            return ProjectPaths(directory)
    raise UsageError(
        f"there is no {MANIFEST_NAME} here or above",
        on=str(start),
        hint="go into a project, or name one with --project DIR",
    )
