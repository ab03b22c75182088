"""Registries of images and other artefacts: the OCI distribution specification 1.1, as a client.

Reads manifests and blobs, streams blobs in both directions, and verifies every digest. Made of the parts that
all of lockbuild's transfers are made of, so that trust, proxies, credentials, retries and redirects are the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credentials
from lockbuild.config.docker import DockerCredentials
from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.events import Note, Reporter, silent
from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference
from lockbuild.transport.body import Body
from lockbuild.transport.failures import (
    MalformedError,
    NotFoundError,
    OfflineError,
    TooLargeError,
    TransferError,
    of_all_places,
)
from lockbuild.transport.registry.auth import Authority
from lockbuild.transport.registry.exchange import Exchange
from lockbuild.transport.registry.manifest import (
    LARGEST_MANIFEST,
    MANIFEST_TYPES,
    Manifest,
    checked_manifest,
    verified,
)
from lockbuild.transport.registry.places import RegistryPlaces
from lockbuild.transport.transfers import Transfers

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lockbuild.transport.http import Http
    from lockbuild.transport.registry.blobs import BlobStore

__all__ = ["LARGEST_MANIFEST", "MANIFEST_TYPES", "Manifest", "Registries"]

T = TypeVar("T")

_LARGEST_LIST = 32 << 20
_SMALLEST_PAGE = 16 << 10
"""What a page of tags counts for at least, so that there are no more than 2000 of them."""
_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')


class Registries:
    """Thread-safe. What a reference names is read from the places that mirrors give for it (`RegistryPlaces`),
    and written to the registry itself. Offline, every request is an OfflineError."""

    def __init__(
        self,
        http: Http,
        config: Config,
        *,
        environ: Mapping[str, str] | None = None,
        report: Reporter = silent,
    ) -> None:
        environ = os.environ if environ is None else environ
        client = http.direct
        self._offline = http.offline
        self._report = report
        self._transfers = Transfers()
        self._places = RegistryPlaces(config, client)
        self._exchange = Exchange(
            client, Authority(client, Credentials(config, environ), DockerCredentials(environ))
        )

    # Reading

    def manifest(self, reference: Reference) -> Manifest:
        """The manifest or index that ``reference`` names.

        NotFoundError where there is none; IntegrityError where it does not have the reference's digest.
        """
        accept = ", ".join(MANIFEST_TYPES)

        def read(place: str) -> Manifest:
            data, headers = self._exchange.get(
                place, _pull(reference), {"Accept": accept}, limit=LARGEST_MANIFEST
            )
            return checked_manifest(reference, place, data, headers)

        return self._first(reference, f"manifests/{reference.target}", read)

    def has_manifest(self, reference: Reference) -> bool:
        """Whether the registry itself has it."""
        return self._has(reference, f"manifests/{reference.target}", {"Accept": ", ".join(MANIFEST_TYPES)})

    def has_blob(self, reference: Reference, digest: Digest) -> bool:
        """Whether the repository itself has the blob."""
        return self._has(reference, f"blobs/{digest}", {})

    def blob(self, reference: Reference, digest: Digest, offset: int = 0) -> Body:
        """The blob's bytes from ``offset`` on where the server can, else from 0: see ``Body.offset``.

        Whoever reads it verifies it: `fetch_blob` and `blob_bytes` do.
        """
        return self._first(
            reference,
            f"blobs/{digest}",
            lambda place: self._exchange.stream(place, _pull(reference), offset),
        )

    def blob_bytes(self, reference: Reference, digest: Digest, *, limit: int) -> bytes:
        """A small blob, verified. TooLargeError beyond ``limit`` bytes."""

        def read(place: str) -> bytes:
            data, _ = self._exchange.get(place, _pull(reference), {}, limit=limit)
            return verified(data, digest, place)

        return self._first(reference, f"blobs/{digest}", read)

    def fetch_blob(
        self,
        reference: Reference,
        digest: Digest,
        store: BlobStore,
        *,
        size: int | None = None,
        label: str | None = None,
        transfers: Transfers | None = None,
    ) -> None:
        """Bring the blob into ``store`` where that lacks it: resumed where it broke off, verified at the end.

        IntegrityError where no place has its bytes, among them those that have another ``size``.
        """
        from lockbuild.transport.registry.blobs import fetch

        transfers = self._transfers if transfers is None else transfers

        def read(place: str) -> None:
            fetch(
                lambda offset: self._exchange.stream(place, _pull(reference), offset),
                digest,
                size,
                store,
                self._report,
                label or f"{reference.repository} {digest.short}",
                transfers,
            )

        if not store.has_blob(digest):
            self._first(reference, f"blobs/{digest}", read)

    def chunks(
        self, reference: Reference, digest: Digest, size: int, *, transfers: Transfers | None = None
    ) -> Iterator[bytes]:
        """The blob in pieces, gone on with where the transfer breaks off, for whoever needs it only once.

        IntegrityError, before the last piece, where it is not what its digest says.
        """
        from lockbuild.transport.pieces import pieces

        def stream(offset: int) -> Body:
            return self.blob(reference, digest, offset)

        return pieces(stream, self._transfers if transfers is None else transfers, size=size, digest=digest)

    def tags(self, reference: Reference) -> list[str]:
        """Every tag of the repository, sorted."""
        found: set[str] = set()

        def read(place: str) -> None:
            url: str | None = place
            left = _LARGEST_LIST
            while url is not None:
                data, headers = self._exchange.get(url, _pull(reference), {}, limit=LARGEST_MANIFEST)
                left -= max(len(data), _SMALLEST_PAGE)
                if left < 0:
                    raise TooLargeError("the list of tags does not end", on=redact(place))
                found.update(_tags(data, url))
                url = _next_page(url, headers.get("Link", ""))

        self._first(reference, "tags/list", read)
        return sorted(found)

    def reach(self, reference: Reference) -> None:
        """UnreachableError where the registry does not answer at once."""
        self._online(reference)
        for place in self._places.reading(reference, "tags/list")[:1]:
            self._exchange.ask(place)

    # Writing

    def push_blob(
        self,
        reference: Reference,
        digest: Digest,
        size: int,
        open_blob: Callable[[], Iterable[Buffer]],
        *,
        mount: Sequence[str] = (),
        label: str | None = None,
    ) -> bool:
        """Let the repository have the blob; False where it already had it, or could take it from another of its
        repositories (``mount``, tried in order).

        ``open_blob`` gives its bytes in pieces, anew each time that it is called.
        """
        from lockbuild.transport.registry.upload import Upload

        if self.has_blob(reference, digest):
            return False
        return Upload(self._exchange, self._places, self._report).push(
            reference, digest, size, open_blob, mount, label or f"push {digest.short}"
        )

    def push_manifest(self, reference: Reference, body: bytes, media_type: str) -> Digest:
        """Put a manifest or index at the reference's tag or digest; what it names must be there already."""
        digest = Digest.of(body)
        if reference.digest not in (None, digest):
            raise ValueError(f"the manifest has the digest {digest}, not that of {reference}")
        self._online(reference)
        url = self._places.writing(reference, f"manifests/{reference.target}")
        response = self._exchange.send(
            "PUT", url, _push(reference), {"Content-Type": media_type}, body=lambda: body
        )
        response.close()
        made = response.headers.get("Docker-Content-Digest")
        if made is not None and made.startswith("sha256:") and made != str(digest):
            raise IntegrityError(f"the registry made {made} of the manifest {digest}", on=str(reference))
        return digest

    def has_credentials(self, reference: Reference) -> bool:
        """Whether there is anything to show to the registry."""
        return self._exchange.authority.knows(self._places.writing(reference, ""))

    def _has(self, reference: Reference, path: str, headers: dict[str, str]) -> bool:
        self._online(reference)
        url = self._places.writing(reference, path)
        try:
            self._exchange.send("HEAD", url, _pull(reference), headers).close()
        except NotFoundError:
            return False
        return True

    def _first(self, reference: Reference, path: str, read: Callable[[str], T]) -> T:
        """From the first place that has it."""
        self._online(reference)
        places = self._places.reading(reference, path)
        if len(places) == 1:
            return read(places[0])
        failures: list[TransferError | IntegrityError] = []
        for place in places:
            try:
                return read(place)
            except (TransferError, IntegrityError) as error:
                failures.append(error)
                self._report(Note(f"{redact(place)}: {error.what}; asking the next place", "debug"))
        raise of_all_places(f"https://{reference.registry}/v2/{reference.repository}/{path}", failures)

    def _online(self, reference: Reference) -> None:
        if self._offline:
            raise OfflineError(
                "would be read from the registry, and the network must not be used",
                on=str(reference),
                hint="run without --offline where there is a network; what is locked stays as it is without one",
            )


def _pull(reference: Reference) -> tuple[str, ...]:
    return (f"repository:{reference.repository}:pull",)


def _push(reference: Reference) -> tuple[str, ...]:
    return (f"repository:{reference.repository}:pull,push",)


def _tags(data: bytes, place: str) -> Iterator[str]:
    try:
        tags = json.loads(data)["tags"] or []
        yield from (tag for tag in tags if isinstance(tag, str))
    except (ValueError, RecursionError, KeyError, TypeError):
        raise MalformedError("what came is no list of tags", on=redact(place)) from None


def _next_page(url: str, link: str) -> str | None:
    found = _NEXT.search(link)
    if found is None:
        return None
    try:
        following: str = urljoin(url, found[1])
        elsewhere = urlsplit(following)[:2] != urlsplit(url)[:2]
    except ValueError:
        raise MalformedError("the list of tags goes on nowhere", on=redact(url)) from None
    if elsewhere:
        raise MalformedError("the list of tags goes on at another host", on=redact(url))
    return following
