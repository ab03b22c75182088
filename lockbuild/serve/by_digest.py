"""Files by their digest and by their URL: ``/sha256/…``, ``/sha512/…``, ``/url/…``, ``/npm/…``.

The digest of a tree is that of its canonical tar, so that is a file by its SHA-256, too.
"""

from __future__ import annotations

from lockbuild.model.digest import Digest
from lockbuild.serve.blobs import Blobs
from lockbuild.serve.library import Library, Location
from lockbuild.serve.message import Answer, Request, absent

_LACKING = "a known lock names it, but the store of this mirror does not have it"


def digest_answer(library: Library, blobs: Blobs, algorithm: str, name: str) -> Answer:
    """The file, or tar of a tree, of that digest (hexadecimal digits), where a known lock names it."""
    if algorithm != "sha256":
        return file_answer(blobs, library.by_sha512.get(name))
    try:
        digest = Digest(name)
    except ValueError:
        return absent("that is no SHA-256 digest")
    answer = blobs.answer(digest) if digest in library.by_sha256 else None
    if answer is None and digest in library.trees:
        answer = blobs.tree_answer(digest)
    if answer is None and digest not in library.by_sha256 and digest not in library.trees:
        return absent("no known lock names that digest")
    return answer or absent(_LACKING)


def url_answer(library: Library, blobs: Blobs, segments: tuple[str, ...], request: Request) -> Answer:
    """The file that stood at ``scheme/host/path`` when it was locked."""
    scheme, host, *path = *segments, *([""] * max(0, 2 - len(segments)))
    return file_answer(
        blobs, library.urls.get(Location(scheme, host, "/".join(path).strip("/"), request.query))
    )


def file_answer(blobs: Blobs, digest: Digest | None) -> Answer:
    """A file; 404 where it is None, not in the store, or damaged there."""
    if digest is None:
        return absent()
    return blobs.answer(digest) or absent(_LACKING)
