"""``from = "onnxruntime-deps"``: the archives that ONNX Runtime's build downloads, laid out as it looks for them.

Its ``cmake/deps.txt`` has a line ``name;url;SHA-1`` for each; a file at ``mirror/`` and the URL without its scheme,
below the checkout, is used in place of the network. SHA-1 binds nothing any more: so each archive is downloaded once
while locking and checked against it, and what the lock has is the SHA-256 of what came.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from lockbuild.errors import IntegrityError, InvalidFileError, Problem, ResolveError, UsageError
from lockbuild.events import Event, Note
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import OnnxruntimeDepsRequest
from lockbuild.reading import open_regular
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.first_use import take

_LIMIT = 1 << 20
"""Bytes of a deps.txt; the real ones have 6 thousand."""
_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*);(https?://([^\s;?#]+));([0-9a-fA-F]{40})")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A line: what it is called, where it is, where below ``mirror`` it belongs, and its SHA-1."""

    name: str
    url: str
    place: str
    sha1: str


def resolve(
    name: str, request: OnnxruntimeDepsRequest, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock every archive that the file names: one tree, the same on every platform.

    UsageError or ResolveError where there is no such file, InvalidFileError for lines that are none; FetchError
    where an archive cannot be had, IntegrityError where it has another SHA-1.
    """
    data, origin = _read(name, request, context)
    dependencies = parse(data, origin)
    tree = LockedTree(
        name=name,
        platform="any",
        unpack="files",
        mount=f"{SOURCES_DIR}/{name.partition('.')[2]}",
        pins={"deps": str(Digest.of(data))},
    )
    quiet = replace(context, report=lambda event: _without_notes(event, context))
    with ThreadPoolExecutor(context.config.network.connections) as pool:
        sources = list(pool.map(lambda item: _source(name, item, tree, quiet, origin), dependencies))
    context.report(
        Note(
            f"{name}: nobody publishes more than the SHA-1 of {len(sources)} archives; the lock has the SHA-256 of "
            "what came with it",
            "warning",
        )
    )
    return Resolution((tree,), tuple(sources))


def parse(data: bytes, origin: str) -> list[Dependency]:
    """The lines of a deps.txt, each place once; InvalidFileError with every line that is not understood."""
    found: dict[str, Dependency] = {}
    problems: list[Problem] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None or not _is_plain(match[3]):
            problems.append(Problem(f"line {number}", f"{text[:100]!r} is not name;url;SHA-1"))
            continue
        item = Dependency(match[1], match[2], match[3], match[4].lower())
        known = found.setdefault(item.place, item)
        if known.sha1 != item.sha1:
            problems.append(Problem(f"line {number}", f"gives {item.url} another SHA-1 than {known.name}"))
    if problems:
        raise InvalidFileError(origin, problems)
    if not found:
        raise ResolveError("it names no archive", on=origin, hint="leave the source out")
    return list(found.values())


def _is_plain(place: str) -> bool:
    return all(part not in ("", ".", "..") for part in place.split("/")) and "/" in place


def _read(name: str, request: OnnxruntimeDepsRequest, context: ResolveContext) -> tuple[bytes, str]:
    """The file, and what messages call it."""
    if request.of is None:
        return _of_project(context.project / request.file, f"{name}.file")
    checkout = context.resolved[f"sources.{request.of}"]
    whole = next(source for source in checkout.sources if source.commit is not None and source.at is None)
    assert whole.url is not None
    assert whole.commit is not None
    origin = f"{whole.url} {whole.commit[:12]}: {request.file}"
    data = context.git.read(whole.url, whole.commit, request.file)
    if data is None:
        raise ResolveError("there is no such file", on=origin)
    return data, origin


def _of_project(file: Path, key: str) -> tuple[bytes, str]:
    try:
        with open_regular(file) as stream:
            data = stream.read(_LIMIT + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", on=key) from None
    if len(data) > _LIMIT:
        raise UsageError(f"{file} has more than {_LIMIT} bytes", on=key)
    return data, str(file)


def _source(name: str, item: Dependency, tree: LockedTree, context: ResolveContext, origin: str) -> Source:
    from lockbuild.resolve.emscripten.repositories import archive_purl

    known = context.trusted.get(item.url)
    if known is not None and f"sha1:{item.sha1}" not in known.purl:
        context = replace(
            context, trusted={}
        )  # the file says another SHA-1 than it did: another archive is meant
    digest, size = take(item.url, context, on=name)
    if context.store.has_blob(digest):
        with context.store.blob_path(digest).open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
        if found != item.sha1:
            raise IntegrityError(
                f"{item.url} has the SHA-1 {found}, and {origin} says {item.sha1}",
                on=f"{name}: {item.name}",
                hint="it was damaged on the way, or is another archive by now",
            )
    return Source(
        purl=archive_purl(item.name, None, item.url, f"sha1:{item.sha1},{digest}"),
        url=item.url,
        size=size,
        sha256=digest,
        at=item.place,
        trust="first-use",
        trees=[tree.id],
    )


def _without_notes(event: Event, context: ResolveContext) -> None:
    """Pass on what is not a note: one for all archives says it better."""
    if not isinstance(event, Note):
        context.report(event)
