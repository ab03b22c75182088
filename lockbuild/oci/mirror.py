"""A mirror by digest as a place to take trees from: what it has under a tree's digest is the tree's canonical tar.

As from a cache (`lockbuild.oci.cache`), what comes is bound by a digest that the lock has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.config.mirrors import Mirror, by_digest
from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.events import Reporter
from lockbuild.model.digest import Digest
from lockbuild.oci.layers import decode
from lockbuild.transport.failures import NotFoundError, OfflineError
from lockbuild.transport.pieces import pieces
from lockbuild.transport.transfers import Transfers

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.body import Body
    from lockbuild.transport.http import Http


class TreeMirror:
    """The mirror that ``mirror.by_digest`` is the place of. Thread-safe.

    What the network does wrong is a TransferError.
    """

    def __init__(
        self, mirror: Mirror, http: Http, store: Store, transfers: Transfers, report: Reporter
    ) -> None:
        self._mirror = mirror
        self._http = http
        self._store = store
        self._transfers = transfers
        self._report = report

    def __str__(self) -> str:
        return redact(self._mirror.by_digest or "")

    def fetch_tree(self, digest: Digest, name: str) -> bool:
        """Make the tree in the store; False where the mirror does not have it, or is not to be asked offline.

        IntegrityError where what it has is something else. ``name`` is what progress and messages call the tree.
        """
        places = by_digest([self._mirror], sha256=digest.hex, sha512=None)
        return any(self._from(url, digest, name) for url in places)

    def _from(self, url: str, digest: Digest, name: str) -> bool:
        try:
            first = self._http.direct.stream(url)
        except (NotFoundError, OfflineError):
            return False
        begun = [first]

        def stream(offset: int) -> Body:
            return begun.pop() if begun else self._http.direct.stream(url, offset=offset)

        with first:
            try:
                tar = pieces(stream, self._transfers)
                decode(self._store, tar, digest, name=name, report=self._report, size=first.total)
            except IntegrityError as error:
                raise IntegrityError(
                    f"what it has for {name} is something else: {error.what}",
                    on=redact(url),
                    hint="do without this mirror, and tell whoever runs it",
                ) from error
        return True
