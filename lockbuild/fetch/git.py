"""Where a commit is: in the repository that its URL names, wherever mirrors have that.

What is fetched for it is the canonical tar of its tree, so that from then on it is a file like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lockbuild.config.urls import redact
from lockbuild.fetch.places import Places
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.git import GitRepositories  # type: ignore[import-not-found,unused-ignore]

HINT = "see whether the repository still has the commit, or name a mirror that has ([[mirrors]])"
"""What to do where no repository has it."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """None: a repository is no file."""
    return iter(())


def expectation(source: Source, places: Places) -> str:
    """For people: where the commit would come from."""
    where = " or ".join(redact(place) for place in places.config.places(source.url or source.purl))
    return f"{where}, commit {source.commit}"


def fetch(source: Source, store: Store, repositories: GitRepositories) -> Digest:
    """Store the canonical tar of the commit's tree; its digest, which is remembered for the source.

    IntegrityError where the lock records another digest; what ``repositories`` raises.
    """
    with store.scratch() as directory:
        tar = directory / "tree.tar"
        with tar.open("wb") as out:
            repositories.write_tree(source.url, source.commit, out)
        digest = store.add_file(tar, source.sha256)
    store.remember(source.identity, digest)
    return digest
