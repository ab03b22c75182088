"""Patch files of the project as sources: locked by their digests, and copied into the store.

A patch has no other place than the project. Its path in the lock is relative to that; its turn is part of the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from lockbuild.archive.unidiff import parse_patch
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.reading import open_regular
from lockbuild.resolve.context import ResolveContext

_LARGEST = 64 << 20


def locked_patches(
    paths: Sequence[str], trees: Sequence[str], context: ResolveContext, *, on: str
) -> list[Source]:
    """The patch files at ``paths``, in the order in which they are applied to ``trees`` (ids); each is in the store.

    ``on`` is the request's key. UsageError where one cannot be read, InvalidFileError where it is no patch.
    """
    sources = []
    for turn, path in enumerate(paths, 1):
        data = read_patch(context.project, path, on=f"{on}.patches[{turn - 1}]")
        parse_patch(data, name=path)
        digest = context.store.add_blob(data)
        sources.append(
            Source(
                purl=_purl(path, digest),
                path=str(PurePosixPath(path)),
                size=len(data),
                sha256=digest,
                patch=turn,
                trees=sorted(trees),
            )
        )
    return sources


def read_patch(project: Path, path: str, *, on: str) -> bytes:
    """The bytes of a patch file of the directory ``project``. UsageError where it cannot be read."""
    try:
        with open_regular(project / path) as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"the patch {path} cannot be read: {error.strerror}", on=on) from None
    if len(data) > _LARGEST:
        raise UsageError(f"the patch {path} has more than {_LARGEST >> 20} MiB", on=on)
    return data


def _purl(path: str, digest: Digest) -> str:
    from packageurl import PackageURL

    name = PurePosixPath(path).name
    return PackageURL(type="generic", name=name, qualifiers={"checksum": str(digest)}).to_string()
