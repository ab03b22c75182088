"""A cache of npm, filled with locked packages, from which ``npm ci --offline`` installs.

Format: npm's cacache, content version 2 and index version 5, with the index entries that make-fetch-happen
keeps of responses. npm takes the package itself by the digest in package-lock.json, which works in a cache
that cannot be written to. Where the lock file does not say where a package is (npm's option
omit-lockfile-registry-resolved), npm first asks the registry which files there are; that answer is in the
cache, too, but npm reads answers only from a cache that it can write to: a copy.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import IntegrityError
from lockbuild.model.lock import Source

REGISTRY = "https://registry.invalid/"
"""The registry that the answers in the cache are from. Nobody can be asked there (RFC 2606)."""
CACHE = "cache"
"""Directory below the mount point that is npm's ``cache``."""
EXPORTS: Mapping[str, str] = {
    "npm_config_audit": "false",
    "npm_config_cache": f"$OUT/{CACHE}",
    "npm_config_fund": "false",
    "npm_config_logs_max": "0",
    "npm_config_offline": "true",
    "npm_config_registry": REGISTRY,
    "npm_config_update_notifier": "false",
}
"""What makes npm use the cache, and neither the network nor places that cannot be written to."""
_ACCEPT = (
    "application/json",
    "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*",
)
"""What npm asks for when it asks what there is of a package: all of it, or what is needed to install it."""
_DATE = "Tue, 01 Jan 1980 00:00:00 GMT"
_TIME = 315532800000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    version: str
    url: str
    sha512: str
    size: int

    @property
    def integrity(self) -> str:
        return _integrity(bytes.fromhex(self.sha512))


def npm_cache(sources: Sequence[Source], files: Sequence[Path], root: Path, *, mount: str) -> None:
    """Make the cache of ``sources``, whose tarballs are ``files``, at ``root``/``mount``/cache.

    A function of the sources alone: no clock, no order. IntegrityError where a file has not the SHA-512 of its source.
    """
    prefix = f"{mount.strip('/')}/{CACHE}/_cacache"
    with TreeWriter(root, origin="npm cache") as writer:
        packages: dict[str, list[_Package]] = {}
        index: dict[str, str] = {}
        for source, file in zip(sources, files, strict=True):
            package = _package(source, file)
            packages.setdefault(package.name, []).append(package)
            with file.open("rb") as stream:
                writer.file(f"{prefix}/{_content(package.sha512)}", stream, executable=False)
            _enter(index, package.url, package.integrity, package.size, "application/octet-stream")
        for name, versions in packages.items():
            document = _document(name, versions)
            digest = hashlib.sha512(document)
            writer.file(f"{prefix}/{_content(digest.hexdigest())}", document, executable=False)
            url = REGISTRY + name.replace("/", "%2f")
            for accept in _ACCEPT:
                integrity = _integrity(digest.digest())
                _enter(index, url, integrity, len(document), "application/json", accept=accept)
        for place, text in index.items():
            writer.file(f"{prefix}/{place}", text.encode(), executable=False)


def _package(source: Source, file: Path) -> _Package:
    from packageurl import PackageURL

    purl = PackageURL.from_string(source.purl)
    hasher = hashlib.sha512()
    size = 0
    with file.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    if hasher.hexdigest() != source.sha512:
        raise IntegrityError(
            f"its file has the SHA-512 {hasher.hexdigest()}, but {source.sha512} is locked",
            on=source.purl,
            hint="remove the file from the store with `lockbuild store verify --repair`, then run `lockbuild sync`",
        )
    name = f"{purl.namespace}/{purl.name}" if purl.namespace else purl.name
    url = source.url or REGISTRY + quote(source.path or "", safe="/@")
    return _Package(name, purl.version or "", url, hasher.hexdigest(), size)


def _document(name: str, packages: Sequence[_Package]) -> bytes:
    """What a registry says of a package, as far as npm needs it to install the locked versions."""
    ordered = sorted(packages, key=lambda package: (package.version, package.url))
    versions = {
        package.version: {
            "name": name,
            "version": package.version,
            "dist": {"tarball": package.url, "integrity": package.integrity},
        }
        for package in ordered
    }
    latest = ordered[-1].version
    return _json({"name": name, "dist-tags": {"latest": latest}, "versions": versions}).encode()


def _enter(
    index: dict[str, str], url: str, integrity: str, size: int, kind: str, *, accept: str | None = None
) -> None:
    """Note in the index that the GET of ``url`` was answered by content of that ``integrity``.

    An answer counts for requests with the same Accept only.
    """
    key = f"make-fetch-happen:request-cache:{url}"
    entry = _json(
        {
            "key": key,
            "integrity": integrity,
            "time": _TIME,
            "size": size,
            "metadata": {
                "time": _TIME,
                "url": url,
                "reqHeaders": {} if accept is None else {"accept": accept},
                "resHeaders": {"cache-control": "public, immutable", "content-type": kind, "date": _DATE},
                "options": {"compress": True},
            },
        }
    )
    line = f"\n{hashlib.sha1(entry.encode(), usedforsecurity=False).hexdigest()}\t{entry}"
    place = "/".join(("index-v5", *_segments(hashlib.sha256(key.encode()).hexdigest())))
    index[place] = index.get(place, "") + line


def _content(sha512: str) -> str:
    return "/".join(("content-v2", "sha512", *_segments(sha512)))


def _segments(digits: str) -> Iterator[str]:
    yield from (digits[:2], digits[2:4], digits[4:])


def _integrity(digest: bytes) -> str:
    return f"sha512-{base64.b64encode(digest).decode()}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
