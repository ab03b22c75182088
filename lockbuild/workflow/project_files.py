"""Files of the project that a lock depends on beside its manifests: patches, and the lock files of other programs.

Their bytes are locked like everything else. A lock is stale where they are no longer as they were locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import StaleLockError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, Unpack
from lockbuild.model.manifest import Manifest
from lockbuild.reading import read_regular
from lockbuild.store import Store

_PINS: Mapping[Unpack, str] = {"npm": "lockfile", "files": "deps"}
"""The pin of a tree that is the digest of the one file that it was made from."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """The file at ``path`` of the project, of which the tree called ``name`` was made, before and now (None: gone)."""

    name: str
    path: str
    locked: Digest
    found: Digest | None

    def __str__(self) -> str:
        now = "is gone" if self.found is None else f"changed: {self.locked} -> {self.found}"
        return f"{self.path} ({self.name}) {now}"


def changed_files(lock: Lock, manifest: Manifest, directory: Path) -> Iterator[ChangedFile]:
    """The files of the project in ``directory`` that are not as the lock has them."""
    for name, request in manifest.requests().items():
        for path in dict.fromkeys(request.files()):
            locked = _locked(lock, name, path)
            if locked is not None and (found := _digest(directory / path)) != locked:
                yield ChangedFile(name, path, locked, found)


def require_files(lock: Lock, manifest: Manifest, directory: Path, *, on: Path) -> None:
    """StaleLockError, naming each, where files of the project are not as they were locked."""
    if changed := list(changed_files(lock, manifest, directory)):
        lines = "".join(f"\n  {file}" for file in changed)
        raise StaleLockError(
            f"the lock was made from other files than the project now has:{lines}",
            on=str(on),
            hint="run `lockbuild lock`, which locks them as they are and keeps every other pin",
        )


def store_patches(lock: Lock, directory: Path, store: Store) -> None:
    """Put the project's patches into the store where it lacks them; they are as they were locked."""
    for source in lock.sources:
        if source.patch is not None and source.sha256 is not None and not store.has_blob(source.sha256):
            assert source.path is not None
            store.add_file(directory / source.path, source.sha256)


def _locked(lock: Lock, name: str, path: str) -> Digest | None:
    """The digest that the lock has for a file of the tree called ``name``; None where it has none."""
    for source in lock.sources:
        if source.patch is None or source.path != str(Path(path)):
            continue
        if any(tree.partition(":")[2] == name for tree in source.trees):
            return source.sha256
    for tree in lock.trees:
        pin = _PINS.get(tree.unpack)
        if tree.name == name and pin in tree.pins:
            return _parsed(tree.pins[pin])
    return None


def _parsed(text: str) -> Digest | None:
    try:
        return Digest.parse(text)
    except ValueError:
        return None


def _digest(file: Path) -> Digest | None:
    try:
        return Digest.of(read_regular(file))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", on=str(file)) from None
