"""Lock entries -> store: whatever the store lacks, several files at once.

Where a source may be is known by one module for each type of package URL; how to get it from there is the
same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lockbuild.config import Config
from lockbuild.events import Reporter, silent
from lockbuild.fetch import deb
from lockbuild.fetch.places import Places
from lockbuild.fetch.run import Run
from lockbuild.model.lock import Source, Suite
from lockbuild.store.sources import has_source
from lockbuild.transport.index import PackageIndexes

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.git.repositories import GitRepositories
    from lockbuild.transport.http import Http
    from lockbuild.transport.registry.registries import Registries

__all__ = ["Fetcher"]


class Fetcher:
    """Fetches sources into ``store``. ``suites`` are the lock's: they say when a snapshot has a package.

    ``repositories`` is needed for sources that a commit binds; ``references`` says what each commit was when it
    was locked (``refs/tags/v1``), where it was something. ``registries`` is needed for images.
    """

    def __init__(
        self,
        store: Store,
        http: Http,
        config: Config,
        *,
        report: Reporter = silent,
        suites: Sequence[Suite] = (),
        repositories: GitRepositories | None = None,
        references: Mapping[str, str] | None = None,
        registries: Registries | None = None,
    ) -> None:
        self._store = store
        self._http = http
        self._config = config
        self._report = report
        self._repositories = repositories
        self._registries = registries
        self._places = Places(
            config, PackageIndexes(http, config), deb.timestamps_of(suites), references or {}
        )

    def missing(self, sources: Iterable[Source]) -> list[Source]:
        """What the store lacks, each digest once, in order."""
        unique = {source.identity: source for source in sources}
        return [source for source in unique.values() if not has_source(self._store, source)]

    def fetch(self, sources: Iterable[Source]) -> None:
        """Bring everything that is missing into the store; nothing that came is lost, whatever happens.

        IntegrityError where only wrong bytes are to be had, FetchError where none are; both name every
        source concerned. Offline, only file:// places are read.
        """
        missing = self.missing(sources)
        if missing:
            Run(
                self._store,
                self._http,
                self._config,
                self._report,
                self._places,
                missing,
                repositories=self._repositories,
                registries=self._registries,
            ).run()
