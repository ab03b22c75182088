"""Git repositories whose answers are kept as documents, or come out of those.

References and descriptions are answers of a server: they are kept as they were. A commit is kept with its trees and
those files of it that were read; what comes back is believed by its object ids, as everything is that git reads.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError, storage_error
from lockbuild.events import Reporter, silent
from lockbuild.transport.documents import Documents
from lockbuild.transport.git import refs as git_refs
from lockbuild.transport.git.cache import COMMITS, CachedRepository
from lockbuild.transport.git.describe import Description, Tag
from lockbuild.transport.git.objects import absent, is_object_id
from lockbuild.transport.git.places import key_of
from lockbuild.transport.git.repositories import GitRepositories, Revision

_HEAD = re.compile(rb"(commit|tree|blob) ([0-9]{1,12})\n")
_NAMED = ("refs/heads/", "refs/tags/")


class RecordingRepositories(GitRepositories):
    """Repositories whose answers are noted; `note_objects` notes the commits that were read."""

    def __init__(
        self, cache: Path, config: Config, documents: Documents, *, report: Reporter = silent
    ) -> None:
        super().__init__(cache, config, report=report)
        self._documents = documents
        self._read: dict[tuple[str, str], dict[str, None]] = {}

    def note_objects(self) -> None:
        """Note every commit that was read, with its trees and the files that were read of it."""
        with self._lock:
            read = {key: list(blobs) for key, blobs in self._read.items()}
        for (url, commit), blobs in sorted(read.items()):
            contents = self.contents(url, commit)
            with self._objects(url, commit) as objects:
                files = dict(objects.several(sorted(blobs), "blob"))
            parts = [_object("commit", contents.commit.raw)]
            parts += [_object("tree", data) for _, data in sorted(contents.trees.items())]
            parts += [_object("blob", data) for _, data in sorted(files.items())]
            self._documents.note(_name(url, "objects", commit), b"".join(parts))

    def describe(self, url: str, commit: str) -> Description:
        found = super().describe(url, commit)
        self._documents.note(_name(url, "describe", commit), _json(asdict(found)))
        return found

    def _ensure(self, url: str, commit: str) -> CachedRepository:
        repository = super()._ensure(url, commit)
        with self._lock:
            self._read.setdefault((url, commit), {})
        return repository

    def _fetch_blobs(self, url: str, commit: str, wanted: Mapping[str, bytes]) -> None:
        super()._fetch_blobs(url, commit, wanted)
        with self._lock:
            self._read[url, commit].update(dict.fromkeys(wanted))

    def _refs_at(self, place: str, url: str) -> dict[str, str]:
        found = super()._refs_at(place, url)
        known = {name: commit for name, commit in found.items() if name.startswith(_NAMED)}
        self._documents.note(_name(url, "refs"), _json(known))
        return found

    def _named_at(self, place: str, url: str, rev: str) -> dict[str, str]:
        found = super()._named_at(place, url, rev)
        if found:
            self._documents.note(_name(url, "named", rev), _json(found))
        return found


class KeptRepositories(GitRepositories):
    """Repositories without a network: what is not cached, and at no file:// place, comes out of documents."""

    def __init__(
        self, cache: Path, config: Config, documents: Documents, *, report: Reporter = silent
    ) -> None:
        super().__init__(cache, config, offline=True, report=report)
        self._documents = documents

    def refs(self, url: str) -> Mapping[str, str]:
        kept = self._kept_refs(url, "refs")
        return super().refs(url) if kept is None else kept

    def revision(self, url: str, rev: str) -> Revision:
        kept = self._kept_refs(url, "refs")
        if is_object_id(rev) or kept is None:
            return super().revision(url, rev)
        found = git_refs.find(kept, rev) or git_refs.find(self._kept_refs(url, "named", rev) or {}, rev)
        if found is None:
            raise git_refs.unknown(kept, rev, redact(url))
        return found

    def describe(self, url: str, commit: str) -> Description:
        data = self._documents.find(_name(url, "describe", commit))
        if data is None:
            return super().describe(url, commit)
        value = _parsed(data, url)
        try:
            tags = [None if tag is None else Tag(**tag) for tag in (value["tag"], value["annotated"])]
            return Description(tags[0], tags[1], int(value["abbrev"]))
        except (KeyError, TypeError, ValueError):
            raise _unsound(url) from None

    def _ensure(self, url: str, commit: str) -> CachedRepository:
        repository = CachedRepository(self._cache, key_of(url), "trees")
        if not repository.has(commit):
            self._import(url, commit, repository)
        return super()._ensure(url, commit)

    def _fetch_blobs(self, url: str, commit: str, wanted: Mapping[str, bytes]) -> None:
        repository = self._ensure(url, commit)
        if absent(self._git, repository.path, wanted):
            self._import(url, commit, repository)
        super()._fetch_blobs(url, commit, wanted)

    def _kept_refs(self, url: str, *about: str) -> dict[str, str] | None:
        data = self._documents.find(_name(url, *about))
        if data is None:
            return None
        value = _parsed(data, url)
        if not all(isinstance(commit, str) and is_object_id(commit) for commit in value.values()):
            raise _unsound(url)
        return value

    def _import(self, url: str, commit: str, repository: CachedRepository) -> None:
        """Bring what is kept of a commit into the cache; nothing, where nothing is."""
        data = self._documents.find(_name(url, "objects", commit))
        if data is None:
            return
        with repository.filling(waiting=lambda: self._waits(url)) as path:
            try:
                found = [_write_object(path, kind, content) for kind, content in _objects(data, url)]
                if commit not in found:
                    raise _unsound(url)
                (path / COMMITS / commit).write_text(f"{commit}\n")
            except OSError as error:
                raise storage_error(error, "cannot keep a git repository", on=str(path)) from error


def _write_object(repository: Path, kind: str, content: bytes) -> str:
    """Write a loose object (gitrepository-layout(5)) under the id that it has; that id."""
    raw = f"{kind} {len(content)}\0".encode() + content
    object_id = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    place = repository / "objects" / object_id[:2] / object_id[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        fresh = place.with_name(f"tmp_obj_{object_id[:8]}")
        fresh.write_bytes(zlib.compress(raw, 1))
        fresh.replace(place)
    return object_id


def _object(kind: str, content: bytes) -> bytes:
    return f"{kind} {len(content)}\n".encode() + content


def _objects(data: bytes, url: str) -> Iterator[tuple[str, bytes]]:
    """Kind and content of each object in such a document."""
    at = 0
    while at < len(data):
        head = _HEAD.match(data, at)
        if head is None or head.end() + int(head[2]) > len(data):
            raise _unsound(url)
        at = head.end() + int(head[2])
        yield head[1].decode(), data[head.end() : at]


def _name(url: str, *about: str) -> str:
    return "/".join(("git", redact(url), *about))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _parsed(data: bytes, url: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _unsound(url)
    return value


def _unsound(url: str) -> IntegrityError:
    return IntegrityError(
        "what is kept of the repository is not sound",
        on=redact(url),
        hint="load the bundle that it came with again, or make that anew",
    )
