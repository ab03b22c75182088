"""Where a commit is: in the repository that its URL names, wherever mirrors have that.

What is fetched for it is the canonical tar of its tree, so that from then on it is a file like any other. Files are
as they stand in the object database: no line ending, encoding, keyword (``ident``, ``export-subst``) or filter that
``.gitattributes`` asks for is applied, so that every host gets the same bytes. What belongs to a submodule is an
empty directory. See `lockbuild.fetch.git_directory` for what git itself knows of a commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from lockbuild.archive import links
from lockbuild.archive.tarstream import CanonicalTar
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.fetch.places import Expectation, Places
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.transport.failures import MalformedError, NotFoundError, TooLargeError
from lockbuild.transport.git.objects import is_below

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.git.repositories import Entry, GitRepositories

HINT = "see whether the repository still has the commit, or name a mirror that has ([[mirrors]])"
"""What to do where no repository has it."""
LIMIT = 16 << 30
"""How many bytes the files of one commit may have together."""
_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_SIZE = 1024
_LINK_SIZE = 4096
_SHOWN = 5


def candidates(source: Source, places: Places) -> Iterator[str]:
    """None: a repository is no file."""
    return iter(())


def expectation(source: Source, places: Places) -> Expectation:
    """Where the commit would come from."""
    where = " or ".join(redact(place) for place in places.config.places(source.url or source.purl))
    return Expectation(where, f"commit {source.commit}")


def fetch(source: Source, store: Store, repositories: GitRepositories, places: Places) -> Digest:
    """Store the canonical tar of the commit's tree (or of its git directory); its digest, which is remembered.

    IntegrityError where the lock records another digest, or the tree is none that can be unpacked safely; what
    ``repositories`` raises: for a commit that is gone NotFoundError, which says what it was.
    """
    from lockbuild.fetch.git_directory import write_git_directory
    from lockbuild.transport.git.process import GitStoppedError
    from lockbuild.transport.transfers import StoppedError

    assert source.url is not None, "the schema of locks gives every commit its repository"
    assert source.commit is not None, "whoever calls this asked for a commit"
    write = write_git_directory if source.is_git_directory else write_tree
    with store.scratch() as directory:
        tar = directory / "tree.tar"
        try:
            with tar.open("wb", buffering=1 << 20) as out:
                write(repositories, source.url, source.commit, out, exclude=source.exclude or ())
        except GitStoppedError:
            raise StoppedError from None
        except NotFoundError as error:
            raise _gone(error, source, repositories, places) from None
        try:
            digest = store.add_file(tar, source.sha256)
        except IntegrityError as error:
            raise IntegrityError(
                f"{error.what}, which the lock says", on=source.purl, hint="the lock was edited or is damaged"
            ) from None
    store.remember(source.identity, digest)
    return digest


def write_tree(
    repositories: GitRepositories,
    url: str,
    commit: str,
    out: BinaryIO,
    *,
    exclude: Sequence[str] = (),
    limit: int = LIMIT,
) -> None:
    """Write the canonical tar of the commit's tree, without what stands below the paths ``exclude``, to ``out``.

    MalformedError where files are kept by git LFS, TooLargeError where they have more than ``limit`` bytes together;
    IntegrityError where a symbolic link leads out of the tree.
    """
    origin = f"{redact(url)} at {commit}"
    every = sorted(repositories.contents(url, commit).entries, key=lambda entry: entry.path)
    entries = [entry for entry in every if not is_below(entry.path, exclude)]
    tar = CanonicalTar(out)
    pointers: list[bytes] = []
    attributes: dict[bytes, bytes] = {}
    with_content = [entry for entry in entries if entry.kind in ("file", "executable", "symlink")]
    with repositories.files(url, commit, with_content) as stream:
        left = limit
        for entry in entries:
            if entry.kind in ("directory", "submodule"):
                tar.directory(entry.path)
                continue
            size, chunks = next(stream)
            left -= size
            if left < 0:
                raise TooLargeError(
                    f"its files have more than {limit:,} bytes",
                    on=origin,
                    hint="leave out what is not needed (exclude)",
                )
            if entry.kind == "symlink":
                target = b"".join(chunks) if size <= _LINK_SIZE else b""
                _check_link(entry, target, origin)
                tar.symlink(entry.path, target)
                continue
            is_attributes = entry.path.rpartition(b"/")[2] == b".gitattributes"
            if size < _POINTER_SIZE or (is_attributes and size < 1 << 20):
                data = b"".join(chunks)
                chunks = iter((data,))
                if data.startswith(_POINTER):
                    pointers.append(entry.path)
                if is_attributes:
                    attributes[entry.path.rpartition(b"/")[0]] = data
            tar.file(entry.path, size, chunks, executable=entry.kind == "executable")
        for _ in stream:
            raise AssertionError("more came than was asked for")
    tar.finish()
    _refuse_pointers(pointers, attributes, origin)


def _gone(
    error: NotFoundError, source: Source, repositories: GitRepositories, places: Places
) -> NotFoundError:
    """The error for a commit that no place has, with the reference that it was when it was locked."""
    from lockbuild.transport.git.refs import described

    reference = places.references.get(source.commit or "")
    if reference is None or repositories.has(source.url or "", source.commit or ""):
        return error
    try:
        present = repositories.refs(source.url or "").get(reference)
    except FetchError:
        present = None
    now = f"it is {present} now" if present else "it is not there any more"
    return NotFoundError(
        f"{error.what}; when it was locked it was the {described(reference)}, and {now}",
        on=error.on,
        hint=error.hint or HINT,
    )


def _check_link(entry: Entry, target: bytes, origin: str) -> None:
    fault = links.fault_at_once(entry.path, target)
    if not target or b"\0" in target:
        fault = "the target of the symbolic link is empty, too long or has a NUL byte"
    if fault:
        raise IntegrityError(
            f"the tree is not safe to unpack: {fault}",
            on=f"{origin}: {os.fsdecode(entry.path)!r} -> {os.fsdecode(target)!r}",
            hint="a tree must stand on its own; leave this link out (exclude)",
        )


def _refuse_pointers(pointers: Sequence[bytes], attributes: Mapping[bytes, bytes], origin: str) -> None:
    """FetchError for files that git LFS keeps elsewhere: pointers where some ``.gitattributes`` asks for its filter."""
    kept = [
        os.fsdecode(path) for path in pointers if any(_asks(parent, attributes) for parent in _parents(path))
    ]
    if kept:
        more = f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        raise MalformedError(
            f"git LFS keeps {', '.join(kept[:_SHOWN])}{more} elsewhere; the repository has pointers only",
            on=origin,
            hint='get these files by from = "archive", and leave them out here (exclude)',
        )


def _asks(directory: bytes, attributes: Mapping[bytes, bytes]) -> bool:
    return b"filter=lfs" in attributes.get(directory, b"")


def _parents(path: bytes) -> Iterator[bytes]:
    while path:
        path = path.rpartition(b"/")[0]
        yield path
