"""Uploading a blob: taken from another repository where possible, else in one piece, else in the registry's pieces.

Distribution specification 1.1, "Pushing blobs". A broken upload is begun again: registries differ in what they
keep of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from lockbuild.config.urls import redact
from lockbuild.events import Advanced, Finished, Note, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference
from lockbuild.transport.failures import MalformedError, TransferError, UnreachableError
from lockbuild.transport.numbers import whole_number
from lockbuild.transport.registry.exchange import Exchange, StatusError
from lockbuild.transport.registry.places import RegistryPlaces

if TYPE_CHECKING:
    import requests
    from typing_extensions import Buffer

_PIECE = 1 << 20
_CHUNK = 16 << 20
"""Bytes of a chunk, where the registry takes no whole blobs and asks for no larger chunks."""
_LARGEST_CHUNK = 256 << 20
_IN_PIECES = (405, 411, 413, 501)
"""What registries, and proxies before them, answer to a body that they find too long or cannot take so."""
_ATTEMPTS = 3


class _Sized:
    """Pieces with a length known beforehand, for a request with Content-Length; tells how far it has come."""

    def __init__(self, pieces: Iterable[Buffer], size: int, progress: _Progress) -> None:
        self._pieces = pieces
        self._size = size
        self._progress = progress

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Buffer]:
        self._progress.restart()
        for piece in self._pieces:
            yield piece
            self._progress.advance(memoryview(piece).nbytes)


class _Progress:
    def __init__(self, key: str, report: Reporter) -> None:
        self._key = key
        self._report = report
        self._at = 0
        self.base = 0

    def advance(self, amount: int) -> None:
        self._at += amount
        self._report(Advanced(self._key, amount))

    def restart(self) -> None:
        """Back to where the request that is under way began."""
        if self._at != self.base:
            self._report(Advanced(self._key, self.base - self._at))
            self._at = self.base


class Upload:
    """Uploads through ``exchange``."""

    def __init__(self, exchange: Exchange, places: RegistryPlaces, report: Reporter) -> None:
        self._exchange = exchange
        self._places = places
        self._report = report

    def push(
        self,
        reference: Reference,
        digest: Digest,
        size: int,
        open_blob: Callable[[], Iterable[Buffer]],
        mount: Sequence[str],
        label: str,
    ) -> bool:
        """Whether bytes had to be sent; the repository has the blob afterwards."""
        start = self._mounted(reference, digest, mount)
        if start is None:
            return False
        key = f"push:{reference.name}:{digest}"
        self._report(Started(key, label, size))
        progress = _Progress(key, self._report)
        try:
            for attempt in range(_ATTEMPTS):
                location = start or self._begin(reference)
                start = None
                try:
                    self._send(reference, location, digest, size, open_blob, progress)
                    return True
                except (UnreachableError, StatusError) as error:
                    lasting = isinstance(error, StatusError) and error.status_code not in (404, 416)
                    if attempt == _ATTEMPTS - 1 or lasting:
                        raise
                    self._report(Note(f"{error.on}: {error.what}; beginning the upload again", "debug"))
                    progress.base = 0
                    progress.restart()
            raise AssertionError("the last attempt returns or raises")
        finally:
            self._report(Finished(key))

    def _mounted(
        self, reference: Reference, digest: Digest, repositories: Sequence[str]
    ) -> requests.Response | None:
        """None where one of the ``repositories`` gave the blob; else the upload that was begun instead."""
        begun: requests.Response | None = None
        for repository in repositories:
            if repository == reference.repository:
                continue
            query = f"blobs/uploads/?mount={quote(str(digest))}&from={quote(repository, safe='/')}"
            url = self._places.writing(reference, query)
            scopes = (*_scopes(reference), f"repository:{repository}:pull")
            try:
                response = self._exchange.send("POST", url, scopes, {"Content-Length": "0"})
            except TransferError as error:
                self._report(Note(f"{error.on}: {error.what}; not mounted", "debug"))
                continue
            response.close()
            if response.status_code == 201:
                return None
            begun = response
        return begun or self._begin(reference)

    def _begin(self, reference: Reference) -> requests.Response:
        url = self._places.writing(reference, "blobs/uploads/")
        response = self._exchange.send("POST", url, _scopes(reference), {"Content-Length": "0"})
        response.close()
        return response

    def _send(
        self,
        reference: Reference,
        begun: requests.Response,
        digest: Digest,
        size: int,
        open_blob: Callable[[], Iterable[Buffer]],
        progress: _Progress,
    ) -> None:
        at = self._places.writing(reference, "")
        location = _location(begun)
        headers = {"Content-Type": "application/octet-stream"}
        if not size:
            headers["Content-Length"] = "0"
        try:
            self._exchange.send(
                "PUT",
                _with_digest(location, digest),
                _scopes(reference),
                headers,
                body=(lambda: _Sized(open_blob(), size, progress)) if size else None,
                at=at,
                attempts=1,
            ).close()
        except StatusError as error:
            if error.status_code not in _IN_PIECES or not size:
                raise
            begun = self._begin(reference)
            self._in_pieces(reference, begun, digest, open_blob, progress)

    def _in_pieces(
        self,
        reference: Reference,
        begun: requests.Response,
        digest: Digest,
        open_blob: Callable[[], Iterable[Buffer]],
        progress: _Progress,
    ) -> None:
        at = self._places.writing(reference, "")
        asked = whole_number(begun.headers.get("OCI-Chunk-Min-Length", ""))
        length = max(_CHUNK, min(asked or 0, _LARGEST_CHUNK))
        location, offset = _location(begun), 0
        progress.base = 0
        progress.restart()
        for chunk in _chunks(open_blob(), length):
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Range": f"{offset}-{offset + len(chunk) - 1}",
            }
            response = self._exchange.send(
                "PATCH",
                location,
                _scopes(reference),
                headers,
                body=lambda chunk=chunk: chunk,  # type: ignore[misc]
                at=at,
                attempts=1,
            )
            response.close()
            offset += len(chunk)
            progress.base = offset
            progress.advance(len(chunk))
            location = _location(response)
        self._exchange.send(
            "PUT",
            _with_digest(location, digest),
            _scopes(reference),
            {"Content-Length": "0"},
            at=at,
            attempts=1,
        ).close()


def _scopes(reference: Reference) -> tuple[str, ...]:
    return (f"repository:{reference.repository}:pull,push",)


def _location(response: requests.Response) -> str:
    """Where an upload goes on. A registry behind a proxy may not know that the proxy speaks TLS."""
    said = response.headers.get("Location", "")
    own = response.url or ""
    try:
        old, new = urlsplit(own), urlsplit(urljoin(own, said))
        _ = new.port
    except ValueError:
        said = ""
    if not said or new.scheme not in ("http", "https"):
        raise MalformedError("the registry does not say where to upload to", on=redact(own))
    if old.scheme == "https" and new.scheme == "http":
        new = new._replace(scheme="https")
    if new.netloc == old.netloc.rpartition("@")[2]:
        new = new._replace(netloc=old.netloc)
    return urlunsplit(new)


def _with_digest(location: str, digest: Digest) -> str:
    separator = "&" if urlsplit(location).query else "?"
    return f"{location}{separator}digest={quote(str(digest))}"


def _chunks(pieces: Iterable[Buffer], length: int) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= length:
            yield bytes(held[:length])
            del held[:length]
    if held:
        yield bytes(held)


def pieces_of(path: str) -> Iterator[bytes]:
    """A file's bytes, in pieces."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        while piece := file.read(_PIECE):
            yield piece


__all__ = ["Upload", "pieces_of"]
