"""What a wheel depends on, read without downloading the wheel where that can be avoided.

Core metadata specification of the Python Packaging Authority. Where the index offers the metadata as a
file (PEP 658), that is read and checked by its digest; else METADATA is taken out of the wheel with range
requests: a zip file has its directory at the end, and wheels have their metadata just before it.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.transport.failures import ABSENT, ABSENT_HINT, OfflineError

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from typing_extensions import Buffer

    from lockbuild.store import Store
    from lockbuild.transport.http import Http
    from lockbuild.transport.index import IndexFile

_LIMIT = 16 * 1024 * 1024
"""Bytes of a METADATA file at most (it holds the project's long description)."""
_BLOCK = 64 * 1024
"""Bytes asked for at once: mostly the zip directory and METADATA together."""


@dataclass(frozen=True, slots=True)
class WheelMetadata:
    """``requires`` with the markers still on; ``extras`` that the wheel provides, normalised."""

    requires: tuple[Requirement, ...]
    extras: frozenset[str]


def read_metadata(http: Http, wheel: IndexFile, store: Store) -> WheelMetadata:
    """The metadata of ``wheel``. ResolveError where it cannot be understood, FetchError where not read.

    What was read of a wheel at one place is kept in the store: its digest says that it stays the same.
    """
    key = None if wheel.sha256 is None else Digest.of(f"metadata of {wheel.sha256} at {wheel.url}".encode())
    known = _kept(store, key) if key is not None else None
    document = _document(wheel)
    if known is None and document is not None:
        known = http.documents.find(document)
    if known is None and wheel.kept:
        raise OfflineError(f"its metadata {ABSENT}", on=wheel.name, hint=ABSENT_HINT)
    data = known or _published(http, wheel) or _from_wheel(http, wheel)
    metadata = _parse(data, wheel.name)
    if key is not None and document is not None:
        http.documents.note(document, data)
        if known is None:
            store.remember(key, store.add_blob(data))
    return metadata


def can_be_read(http: Http, wheel: IndexFile) -> bool:
    """False where the metadata of ``wheel`` would be a document and is none."""
    document = _document(wheel)
    return not wheel.kept or (document is not None and http.documents.find(document) is not None)


def _document(wheel: IndexFile) -> str | None:
    return None if wheel.sha256 is None else f"pypi/metadata/{wheel.sha256.hex}"


def _kept(store: Store, key: Digest) -> bytes | None:
    digest = store.recall(key)
    try:
        return store.verified_blob(digest).read_bytes() if digest and store.has_blob(digest) else None
    except IntegrityError:
        return None  # it was damaged, and is gone now


def _published(http: Http, wheel: IndexFile) -> bytes | None:
    if wheel.metadata_url is None:
        return None
    from lockbuild.transport.failures import NotFoundError

    def check(data: bytes) -> None:
        if wheel.metadata_sha256 is not None and Digest.of(data) != wheel.metadata_sha256:
            raise IntegrityError(
                f"the metadata of {wheel.name} must have {wheel.metadata_sha256} and has {Digest.of(data)}",
                on=redact(wheel.metadata_url or ""),
            )

    try:
        return http.get(wheel.metadata_url, limit=_LIMIT, check=check)
    except NotFoundError:
        return None  # some mirrors pass the page on and not the files


def _from_wheel(http: Http, wheel: IndexFile) -> bytes:
    size = wheel.size if wheel.size is not None else http.size(wheel.url)
    if size is not None:
        try:
            return _member(io.BufferedReader(_RemoteFile(http, wheel.url, size), _BLOCK), wheel.name)
        except _NoRangesError:
            pass
    with tempfile.TemporaryFile() as file:
        with http.stream(wheel.url) as body:
            for chunk in body:
                file.write(chunk)
        return _member(file, wheel.name)


def _member(file: BinaryIO, wheel: str) -> bytes:
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                directory, _, rest = entry.filename.partition("/")
                if rest == "METADATA" and directory.endswith(".dist-info") and entry.file_size <= _LIMIT:
                    return archive.read(entry)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ResolveError(f"is not a wheel: {error}", on=wheel) from None
    raise ResolveError("has no METADATA", on=wheel)


class _NoRangesError(Exception):
    """The server gives no parts of files."""


class _RemoteFile(io.RawIOBase):
    """A file of known size behind HTTP, read block-wise; the last block is read first and kept."""

    def __init__(self, http: Http, url: str, size: int) -> None:
        self._http = http
        self._url = url
        self._size = size
        self._position = 0
        self._tail_at = max(0, size - _BLOCK)
        self._tail = self._slice(self._tail_at, size - self._tail_at)

    def _slice(self, offset: int, length: int) -> bytes:
        data = self._http.slice(self._url, offset, length) if length else b""
        if data is None:
            raise _NoRangesError
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._size - self._position)
        if length <= 0:
            return 0
        if self._position >= self._tail_at:
            start = self._position - self._tail_at
            data = self._tail[start : start + length]
        else:
            data = self._slice(self._position, min(length, self._tail_at - self._position))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def _parse(data: bytes, wheel: str) -> WheelMetadata:
    from packaging.metadata import parse_email
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    raw, _ = parse_email(data)
    requires = []
    for text in raw.get("requires_dist", []):
        try:
            requires.append(Requirement(text))
        except InvalidRequirement:
            raise ResolveError(f"declares a dependency that cannot be read: {text!r}", on=wheel) from None
    extras = frozenset(canonicalize_name(extra) for extra in raw.get("provides_extra", []))
    return WheelMetadata(tuple(requires), extras)
