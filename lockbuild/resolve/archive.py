"""``from = "archive"``: the manifest says everything, so nothing is read from the network.

The package URL is of the type ``generic``, with the qualifiers ``checksum`` and ``download_url`` that the
package URL specification has for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from lockbuild.config.urls import carries_secret, redact
from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import ArchiveRequest, ArchiveTool
from lockbuild.resolve.context import Resolution, ResolveContext


def resolve(
    name: str, request: ArchiveRequest, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock an archive by its URL and SHA-256: one tree, the same on every platform. Size is not known.

    ResolveError where the URL has no file name, or holds a credential: a lock is for everyone to read.
    """
    if carries_secret(request.url):
        raise ResolveError(
            f"the URL {redact(request.url)} holds a credential, which must not stand in a lock",
            on=f"{name}.url",
            hint="leave it out and put it into ~/.netrc",
        )
    file_name = PurePosixPath(unquote(urlsplit(request.url).path)).name
    if not file_name:
        raise ResolveError(f"the URL {request.url} names no file", on=f"{name}.url")
    short = name.partition(".")[2] or name
    tree = LockedTree(
        name=name,
        platform="any",
        unpack="archive",
        mount=request.mount or f"/opt/{short}"
        if isinstance(request, ArchiveTool)
        else f"{SOURCES_DIR}/{short}",
        strip=request.strip,
        exports=request.exports if isinstance(request, ArchiveTool) else {},
    )
    if request.sha256 is None:
        raise ResolveError("an archive without sha256 is not supported yet", on=f"{name}.sha256")
    digest = Digest(request.sha256)
    source = Source(
        purl=_purl(file_name, digest, request.url), url=request.url, sha256=digest, trees=[tree.id]
    )
    return Resolution((tree,), (source,))


def _purl(file_name: str, digest: Digest, url: str) -> str:
    from packageurl import PackageURL

    qualifiers = {"checksum": str(digest), "download_url": url}
    return PackageURL(type="generic", name=file_name, qualifiers=qualifiers).to_string()
