"""Where a Python distribution may be: wherever an index's page of the project links to its file name."""

from __future__ import annotations

from collections.abc import Iterator

from lockbuild.errors import FetchError
from lockbuild.fetch.places import Expectation, Places
from lockbuild.model.lock import Source
from lockbuild.transport.failures import OfflineError

HINT = "check the indexes (pip's configuration, or [pypi] indexes in lockbuild's config.toml), or lock again"
"""What to do where no place has the file."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """URLs in the order of the indexes. An index that publishes another digest has another file: not asked.

    FetchError, at the end, where an index cannot be read.
    """
    from packageurl import PackageURL

    name = PackageURL.from_string(source.purl).name
    failure: FetchError | None = None
    for index in places.indexes.urls:
        try:
            files = places.indexes.page(index, name) or ()
        except OfflineError:
            continue
        except FetchError as error:
            failure = error  # another index can have the same file: the digest decides
            continue
        for file in files:
            if file.name == source.path and file.sha256 in (None, source.sha256):
                yield file.url
    if failure is not None:
        raise failure


def expectation(source: Source, places: Places) -> Expectation:
    """Where the file would come from."""
    return Expectation("a Python package index", source.path or source.purl)
