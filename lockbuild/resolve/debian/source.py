"""``from = "debian-source"``: the upstream archive (``.orig.tar.*``) of a Debian source package.

Format: Debian's repository format ("Sources" indices) and dsc(5). The Debian packaging itself is not
taken: a project builds upstream's sources.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianSourceRequest
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.archive import read_indexes
from lockbuild.resolve.debian.base import check_components, deb_purl
from lockbuild.resolve.debian.deb822 import Stanza, parse_stanza, stanza_spans
from lockbuild.resolve.debian.index import checked_digest, checked_path, checked_size
from lockbuild.resolve.debian.release import Release
from lockbuild.resolve.debian.version import version_key

_MAIN = re.compile(r"\.orig\.tar\.(?:xz|gz|bz2|zst|lzma)$")
_COMPONENT = re.compile(r"\.orig-(?P<component>[A-Za-z0-9-]+)\.tar\.(?:xz|gz|bz2|zst|lzma)$")


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    sha256: Digest


def resolve(
    name: str, request: DebianSourceRequest, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock the upstream archive of the newest version: one source, one tree for any platform.

    ResolveError where the suite has no such source package, or the package no upstream archive; errors of
    `read_indexes`.
    """

    def wanted(release: Release) -> list[str]:
        check_components(request.components, release)
        return [f"{component}/source/Sources" for component in request.components]

    indexes = read_indexes(request, wanted, context)
    codename = indexes.release.codename
    on = f"{name}: {request.package} of {codename}"
    stanza = _newest([indexes.texts[path] for path in wanted(indexes.release)], request.package, on)
    version = stanza.get("Version") or ""
    archive, components = _upstream(stanza, on)
    if components:
        context.report(
            Note(f"{on} has further upstream archives, which are not taken: {', '.join(components)}")
        )
    short = name.removeprefix("sources.")
    tree = LockedTree(name=name, platform="any", unpack="archive", strip=1, mount=f"{SOURCES_DIR}/{short}")
    source = Source(
        purl=deb_purl(request.package, version, "source", codename),
        path=archive.path,
        size=archive.size,
        sha256=archive.sha256,
        trees=[tree.id],
    )
    return Resolution((tree,), (source,), (indexes.suite,))


def _newest(texts: Sequence[bytes], package: str, on: str) -> Stanza:
    """The stanza of the newest version of source package ``package``."""
    line = f"Package: {package}\n".encode()
    found: list[Stanza] = []
    for text in texts:
        position = 0
        while (position := text.find(line, position)) >= 0:
            if position == 0 or text[position - 1] == 0x0A:
                start = text.rfind(b"\n\n", 0, position)
                end = text.find(b"\n\n", position)
                stanza = text[0 if start < 0 else start + 2 : len(text) if end < 0 else end]
                found.append(parse_stanza(stanza.strip(b"\n"), on=on))
            position += len(line)
    # A source that is kept only because something was built with it is not the suite's version.
    current = [stanza for stanza in found if stanza.get("Extra-Source-Only") != "yes"] or found
    if not current:
        raise _unknown(texts, package, on)
    try:
        return max(current, key=lambda stanza: version_key(stanza.get("Version") or ""))
    except ValueError as error:
        raise IntegrityError(str(error), on=on) from None


def _unknown(texts: Sequence[bytes], package: str, on: str) -> ResolveError:
    names = set()
    for text in texts:
        for start, _ in stanza_spans(text):
            if text.startswith(b"Package: ", start):
                names.add(text[start + 9 : text.find(b"\n", start)].decode("utf-8", "replace"))
    close = difflib.get_close_matches(package, sorted(names), n=3, cutoff=0.7)
    return ResolveError(
        "the suite has no such source package",
        on=on,
        hint=f"did you mean {' or '.join(close)}?"
        if close
        else "binary packages may come from one of another name",
    )


def _upstream(stanza: Stanza, on: str) -> tuple[_File, list[str]]:
    """The main upstream archive, and the names of further ones."""
    directory = stanza.get("Directory") or ""
    files: list[_File] = []
    for line in stanza.lines("Checksums-Sha256"):
        words = line.split()
        if len(words) != 3:
            raise IntegrityError(f"{line[:80]!r} is not a digest, a size and a file name", on=on)
        path = checked_path(f"{directory}/{words[2]}", on=on)
        files.append(_File(path, checked_size(words[1], on=on), checked_digest(words[0], on=on)))
    if not files:
        raise IntegrityError("the index has no SHA256 for its files", on=on)
    components = sorted(
        match["component"] for match in (_COMPONENT.search(file.path) for file in files) if match
    )
    main = [file for file in files if _MAIN.search(file.path)]
    if len(main) == 1:
        return main[0], components
    names = ", ".join(file.path.rpartition("/")[2] for file in files)
    if components:
        raise ResolveError(f"its upstream archive comes in components only: {', '.join(components)}", on=on)
    raise ResolveError(
        f"it has {'no' if not main else 'more than one'} upstream archive (.orig.tar.*); its files are {names}",
        on=on,
        hint="packages made for Debian have none; use an archive with its url and sha256 instead",
    )
