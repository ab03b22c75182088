"""Where a package of the npm registry may be: at its path below the registry, or where it says itself."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from lockbuild.fetch.places import Expectation, Places, expected_at
from lockbuild.model.lock import Source

HINT = "check the registry (npm's configuration, or [npm] registry in lockbuild's config.toml)"
"""What to do where the registry does not have it."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """The one URL. UsageError where no registry is known."""
    if source.url is not None:
        yield source.url
    elif source.path is not None:
        registry = places.config.npm_registry(_package(source.path))
        yield f"{registry}/{quote(source.path, safe='/@~+!')}"


def expectation(source: Source, places: Places) -> Expectation:
    """Where the file would come from."""
    if source.url is not None:
        return expected_at([source.url])
    return Expectation("an npm registry", source.path or source.purl)


def _package(path: str) -> str:
    """The package that a path below a registry belongs to: ``@scope/name/-/name-1.0.tgz``."""
    return path.partition("/-/")[0]
