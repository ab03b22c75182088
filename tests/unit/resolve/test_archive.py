"""Locking an archive from what the manifest says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from packageurl import PackageURL

from lockbuild.config import Config
from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform
from lockbuild.model.requests import ArchiveRequest, ArchiveTool, PathRequest, Request
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http

PLATFORMS = [Platform.parse("linux/amd64"), Platform.parse("linux/arm64")]
DIGEST = Digest.of(b"archive")


def locked(name: str, request: Request, tmp_path: Path) -> Resolution:
    config = Config()
    with Http(config, offline=True) as http:
        context = ResolveContext(http, config, Store(tmp_path / "store"), datetime.now(UTC), tmp_path)
        return resolve(name, request, PLATFORMS, context)


def archive(url: str) -> ArchiveRequest:
    return ArchiveRequest.model_validate({"from": "archive", "url": url, "sha256": DIGEST.hex})


def test_a_source(tmp_path: Path) -> None:
    url = "https://h.test/dl/zlib%201.3+x.tar.gz?v=1"
    resolution = locked("sources.zlib", archive(url), tmp_path)
    (tree,), (source,) = resolution.trees, resolution.sources
    assert (tree.id, tree.unpack, tree.mount, tree.strip) == (
        "any:sources.zlib",
        "archive",
        "/build/sources/zlib",
        1,
    )
    assert (source.url, source.path, source.size, source.sha256) == (url, None, None, DIGEST)
    assert source.trees == ["any:sources.zlib"]
    purl = PackageURL.from_string(source.purl)
    assert (purl.type, purl.name, purl.version) == ("generic", "zlib 1.3+x.tar.gz", None)
    assert purl.qualifiers == {"checksum": str(DIGEST), "download_url": url}
    assert purl.to_string() == source.purl


def test_a_tool(tmp_path: Path) -> None:
    values = {
        "from": "archive",
        "url": "https://h.test/a.zip",
        "sha256": DIGEST.hex,
        "strip": 0,
        "exports": {"A": "b"},
    }
    tree = locked("tools.a", ArchiveTool.model_validate(values), tmp_path).trees[0]
    assert (tree.mount, tree.strip, tree.exports) == ("/opt/a", 0, {"A": "b"})
    tree = locked("tools.a", ArchiveTool.model_validate({**values, "mount": "/opt/b"}), tmp_path).trees[0]
    assert tree.mount == "/opt/b"


@pytest.mark.parametrize("url", ["https://u:s3cret@h.test/a.zip", "https://h.test/a.zip?token=s3cret"])
def test_a_credential_is_not_locked(tmp_path: Path, url: str) -> None:
    with pytest.raises(ResolveError, match="must not stand in a lock") as caught:
        locked("sources.a", archive(url), tmp_path)
    assert "s3cret" not in str(caught.value)
    assert "sources.a.url" in str(caught.value)


@pytest.mark.parametrize("url", ["https://h.test", "https://h.test/"])
def test_a_url_without_a_file(tmp_path: Path, url: str) -> None:
    with pytest.raises(ResolveError, match="names no file"):
        locked("sources.a", archive(url), tmp_path)


def test_a_path_is_not_resolved_here(tmp_path: Path) -> None:
    with pytest.raises(ResolveError, match='from = "path"') as caught:
        locked("sources.p", PathRequest.model_validate({"from": "path", "path": "p"}), tmp_path)
    assert "sources.p" in str(caught.value)
