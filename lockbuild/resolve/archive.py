"""``from = "archive"``: the manifest says everything, so nothing is read from the network.

Only an archive without a digest, which ``trust = "first-use"`` allows, is downloaded while it is locked.
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
from lockbuild.resolve.first_use import take
from lockbuild.resolve.patches import locked_patches


def resolve(
    name: str, request: ArchiveRequest, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock an archive by its URL and SHA-256, and its patches by theirs: one tree, the same on every platform.

    ResolveError where the URL has no file name, or holds a credential: a lock is for everyone to read. Errors of
    `first_use.take` and `locked_patches`.
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
        parameters={"subdirectory": request.subdirectory} if request.subdirectory else {},
        exports=request.exports if isinstance(request, ArchiveTool) else {},
    )
    patches = locked_patches(request.patches, [tree.id], context, on=name)
    size: int | None = None
    if request.sha256 is not None:
        digest = Digest(request.sha256)
    else:
        digest, size = take(request.url, context, on=name)
    source = Source(
        purl=_purl(file_name, digest, request.url),
        url=request.url,
        size=size,
        sha256=digest,
        trust=request.trust,
        trees=[tree.id],
    )
    return Resolution((tree,), (source, *patches))


def _purl(file_name: str, digest: Digest, url: str) -> str:
    from packageurl import PackageURL

    qualifiers = {"checksum": str(digest), "download_url": url}
    return PackageURL(type="generic", name=file_name, qualifiers=qualifiers).to_string()
