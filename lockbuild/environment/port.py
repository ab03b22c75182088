"""A port of Emscripten as Emscripten would have unpacked it, so that it takes it for its own.

It looks for the marker ``.emscripten_url`` in the port's directory, which has to hold the URL that its port file
names; then it neither fetches anything nor looks at the archive again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockbuild.archive.extract import extract_archive
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.environment.caches import without_bytecode
from lockbuild.errors import IntegrityError
from lockbuild.model.lock import Source

MARKER = ".emscripten_url"
_DIRECTORY = re.compile(r"(?!\.{1,2}$)[^/\0]+")
_URL = re.compile(r"https?://\S+")


def port(
    sources: Sequence[Source], files: Sequence[Path], root: Path, *, mount: str, parameters: Mapping[str, str]
) -> None:
    """Unpack the port's one archive at ``root``/``mount``, and mark it.

    ``parameters`` are ``url`` (what the marker says), and, where the archive is of another version than the one that
    Emscripten pins, ``directory`` and ``as``: what its directory is called, and what Emscripten expects.
    IntegrityError where the archive is unsafe, or has no such directory.
    """
    url = parameters.get("url", "")
    if len(sources) != 1 or not _URL.fullmatch(url):
        raise IntegrityError(
            "a port is made of one archive and the URL that marks it", on=f"{mount}: {url!r}"
        )
    base = root / mount.strip("/")
    extract_archive(files[0], base, name=sources[0].location)
    without_bytecode(base)
    if "directory" in parameters:
        _rename(base, parameters["directory"], parameters.get("as", ""), sources[0].location)
    with TreeWriter(base, origin=sources[0].location) as writer:
        writer.file(MARKER, f"{url}\n".encode(), executable=False)


def _rename(base: Path, name: str, wanted: str, archive: str) -> None:
    for part in (name, wanted):
        if not _DIRECTORY.fullmatch(part):
            raise IntegrityError(f"{part!r} is not the name of a directory", on=archive)
    found = base / name
    if found.is_symlink() or not found.is_dir() or os.path.lexists(base / wanted):
        raise IntegrityError(f"the archive has no directory {name!r} to be called {wanted!r}", on=archive)
    found.rename(base / wanted)
