"""Python package indexes: the files of a project, by the simple repository API.

Follows the simple repository API specification of the Python Packaging Authority (PEP 503 HTML and PEP
691 JSON, PEP 592 yanked files, PEP 658 and 714 metadata files, PEP 700 sizes); pypi-simple reads both.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urldefrag

from lockbuild.config import Config
from lockbuild.config.urls import redact, with_credentials_of
from lockbuild.model.digest import Digest
from lockbuild.transport.failures import MalformedError, NotFoundError
from lockbuild.transport.http import Http

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, ProjectPage

_PAGE_LIMIT = 128 * 1024 * 1024
"""Bytes of an index page at most. The longest real ones have some ten million."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file that an index offers. ``version`` as its name says, None where that cannot be read.

    ``metadata_url`` is there where the index offers a wheel's metadata as a file of its own.
    """

    name: str
    url: str = field(repr=False)
    wheel: bool
    version: str | None
    sha256: Digest | None
    size: int | None
    requires_python: str | None
    yanked: bool
    metadata_url: str | None = field(repr=False, default=None)
    metadata_sha256: Digest | None = None
    uploaded: datetime | None = None
    """When it came (aware), where the index says so (PEP 700)."""
    kept: bool = field(compare=False, default=False)
    """It is out of what was kept of an index: nothing can be read from its URL, which only tells it apart."""


class PackageIndexes:
    """The configured indexes. Each page is read once. Thread-safe."""

    def __init__(self, http: Http, config: Config) -> None:
        self._http = http
        self._config = config
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], Future[tuple[IndexFile, ...] | None]] = {}

    @cached_property
    def urls(self) -> tuple[str, ...]:
        """Base URLs, the preferred one first. pip's configuration is read when this is first asked for."""
        return tuple(url.rstrip("/") for url in self._config.pypi_indexes())

    def project(self, name: str) -> tuple[IndexFile, ...] | None:
        """The files of project ``name`` on the first index that has it; None where none has.

        One index answers for a project, so that nobody can put a newer release of a private project on
        a public index. FetchError where an index before that one cannot be read.
        """
        from packaging.utils import canonicalize_name

        document = f"pypi/{canonicalize_name(name)}"
        kept = self._http.documents.find(document)
        if kept is not None:
            return _unpacked(kept, document)
        files = None
        for url in self.urls:
            files = self.page(url, name)
            if files is not None:
                break
        self._http.documents.note(document, _packed(files))
        return files

    def page(self, index: str, name: str) -> tuple[IndexFile, ...] | None:
        """The files of project ``name`` on one index; None where it has no such project."""
        from packaging.utils import canonicalize_name

        key = (index, canonicalize_name(name))
        with self._lock:
            future = self._pages.get(key)
            mine = future is None
            if future is None:
                future = self._pages[key] = Future()
        if mine:
            try:
                future.set_result(self._read(*key))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()

    def _read(self, index: str, name: str) -> tuple[IndexFile, ...] | None:
        from pypi_simple import ACCEPT_JSON_PREFERRED

        url = f"{index}/{name}/"
        if index.startswith("file:"):
            url += "index.html"
        try:
            document = self._http.read(url, limit=_PAGE_LIMIT, accept=ACCEPT_JSON_PREFERRED)
        except NotFoundError:
            return None
        page = _parse(document.body, document.content_type, name, document.url)
        return tuple(_file(package, document.url) for package in page.packages)


def _parse(body: bytes, content_type: str, name: str, url: str) -> ProjectPage:
    import json

    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    kind, _, parameters = content_type.partition(";")
    try:
        if kind.strip().lower() in ("application/vnd.pypi.simple.v1+json", "application/json"):
            return ProjectPage.from_json_data(json.loads(body), base_url=url)
        encoding = parameters.partition("charset=")[2].strip(" \"'") or None
        return ProjectPage.from_html(name, body, base_url=url, from_encoding=encoding)
    except UnsupportedRepoVersionError as error:
        raise MalformedError(
            f"the index speaks a version of the simple repository API that is not known: {error}",
            on=redact(url),
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedError(
            f"is not a page of a Python package index ({type(error).__name__})",
            on=redact(url),
            hint="check the URLs of the indexes: they end with /simple mostly",
        ) from None


def _file(package: DistributionPackage, page: str) -> IndexFile:
    url = with_credentials_of(urldefrag(package.url).url, page)
    return IndexFile(
        name=package.filename,
        url=url,
        wheel=package.package_type == "wheel",
        version=package.version,
        sha256=_sha256(package.digests),
        size=package.size,
        requires_python=package.requires_python,
        yanked=bool(package.is_yanked),
        metadata_url=f"{url}.metadata" if package.has_metadata else None,
        metadata_sha256=_sha256(package.metadata_digests or {}),
        uploaded=_aware(package.upload_time),
    )


def _packed(files: tuple[IndexFile, ...] | None) -> bytes:
    """A project's files without where they are, as JSON."""
    import json

    if files is None:
        return b"null"
    rows = [
        [
            file.name,
            file.wheel,
            file.version,
            None if file.sha256 is None else file.sha256.hex,
            file.size,
            file.requires_python,
            file.yanked,
            None if file.uploaded is None else file.uploaded.isoformat(),
        ]
        for file in files
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


def _unpacked(data: bytes, on: str) -> tuple[IndexFile, ...] | None:
    """The same again, but for where they are."""
    import json

    try:
        rows = json.loads(data)
        return (
            None
            if rows is None
            else tuple(
                IndexFile(
                    name=str(name),
                    url=f"kept:{name}",
                    wheel=bool(wheel),
                    version=None if version is None else str(version),
                    sha256=None if sha256 is None else Digest(sha256),
                    size=None if size is None else int(size),
                    requires_python=None if requires is None else str(requires),
                    yanked=bool(yanked),
                    uploaded=None if uploaded is None else _aware(datetime.fromisoformat(uploaded)),
                    kept=True,
                )
                for name, wheel, version, sha256, size, requires, yanked, uploaded in rows
            )
        )
    except (ValueError, TypeError, RecursionError):
        raise MalformedError("what is kept of the index is not sound", on=on) from None


def _aware(time: datetime | None) -> datetime | None:
    """A time without a zone is UTC, as the specification has it."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def _sha256(digests: dict[str, str]) -> Digest | None:
    try:
        return Digest(digests["sha256"].lower())
    except (KeyError, ValueError):
        return None
