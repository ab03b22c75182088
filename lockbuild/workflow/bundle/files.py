"""Opening a bundle: from a file, from all its parts in any order, or from standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from lockbuild.errors import UsageError
from lockbuild.oci.bundle.read import BundleReader
from lockbuild.oci.bundle.source import ByteSource, PeekedSource, StreamSource, open_bundle
from lockbuild.oci.bundle.split import PartsSource, is_part, ordered

STDIN = Path("-")
_BLOCK = 512


@contextmanager
def read_bundle(files: Sequence[Path], *, head_only: bool = False) -> Iterator[BundleReader]:
    """The bundle in ``files``, opened and its head proven; ``head_only`` needs no more than the first part."""
    with ExitStack() as exits:
        yield BundleReader(_source(_named(files), exits, head_only))


def is_bundle(file: Path) -> bool:
    """Whether the file looks like a bundle, or the first part of one."""
    try:
        with open_bundle(_named([file])[0]) as stream:
            start = stream.read(_BLOCK)
    except UsageError:
        return False
    return is_part(start) or start.startswith(b"oci-layout\0")


def _named(files: Sequence[Path]) -> list[Path]:
    """The files; for a name that only parts have, all of those."""
    if len(files) == 1 and files[0] != STDIN and not files[0].exists():
        found = sorted(files[0].parent.glob(f"{_escaped(files[0].name)}.[0-9][0-9][0-9]"))
        if found:
            return found
    return list(files)


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)


def _source(files: Sequence[Path], exits: ExitStack, head_only: bool) -> ByteSource:
    if STDIN in files:
        if len(files) > 1:
            raise UsageError("standard input (-) is named beside other files")
        stream = exits.enter_context(closing(cast(BinaryIO, os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0))))
        peeked = PeekedSource(StreamSource(stream, "standard input"))
        return PartsSource([peeked]) if is_part(peeked.start) else peeked
    streams = [exits.enter_context(open_bundle(file)) for file in files]
    sources = [StreamSource(stream, str(file)) for stream, file in zip(streams, files, strict=True)]
    starts = [stream.read(_BLOCK) for stream in streams]
    for stream in streams:
        stream.seek(0)
    if not is_part(starts[0]):
        if len(files) > 1:
            raise UsageError(
                "several files are named, and they are not parts of one bundle",
                on=str(files[0]),
                hint="load one bundle after the other",
            )
        return sources[0]
    return ordered(sources, streams, head_only=head_only)
