"""What every resolver is given and what it returns.

A resolver is a function of a request and this context: clock, configuration and network come from
here and from nowhere else, so that tests can freeze and serve all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import LockbuildError
from lockbuild.events import Reporter, silent
from lockbuild.model.lock import LockedTree, Source, Suite
from lockbuild.model.platform import Platform
from lockbuild.resolve.target import TargetPython

if TYPE_CHECKING:
    from lockbuild.config import Config
    from lockbuild.store import Store
    from lockbuild.transport.git.repositories import GitRepositories
    from lockbuild.transport.http import Http
    from lockbuild.transport.registry.registries import Registries


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a request was locked to: trees, the sources they are made of, the signed indexes behind them."""

    trees: tuple[LockedTree, ...]
    sources: tuple[Source, ...]
    suites: tuple[Suite, ...] = ()


def _no_registries() -> Registries:
    raise LockbuildError("this context reads no registries of images")


def _no_git() -> GitRepositories:
    raise LockbuildError("this context reads no git repositories")


@dataclass(frozen=True, slots=True)
class ResolveContext:
    """Where and when to resolve.

    ``now`` is aware; ``project`` is the project's directory; ``allow_expired`` accepts a signed index
    past its Valid-Until, whatever the request says. ``targets`` has, for each platform whose base root
    is resolved already, the Python and glibc in it: what wheels are chosen for. ``resolved`` has, by
    manifest key, what is resolved or kept already: at least all that the request says it needs.
    ``kept`` is what the same request stays locked to on other platforms: its versions are to be preferred.
    ``trusted`` has, by URL, what was taken on first use and is not to be taken anew.
    ``not_after`` (aware) asks to ignore what was released later, where the time of release is known.
    """

    http: Http
    config: Config
    store: Store
    now: datetime
    project: Path
    open_git: Callable[[], GitRepositories] = _no_git
    open_registries: Callable[[], Registries] = _no_registries
    report: Reporter = silent
    allow_expired: bool = False
    targets: Mapping[Platform, TargetPython] = field(default_factory=dict)
    resolved: Mapping[str, Resolution] = field(default_factory=dict)
    trusted: Mapping[str, Source] = field(default_factory=dict)
    kept: Resolution | None = None
    not_after: datetime | None = None

    @property
    def git(self) -> GitRepositories:
        """Git repositories, through the configured mirrors; opened when first asked for."""
        return self.open_git()

    @property
    def registries(self) -> Registries:
        """Registries of images, through the configured mirrors; opened when first asked for."""
        return self.open_registries()
