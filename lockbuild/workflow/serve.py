"""``lockbuild serve``: which locks are known, and a server of what they name until somebody ends it."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import FetchError, LockbuildError, UsageError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.lockfile import loads
from lockbuild.reading import read_regular
from lockbuild.serve.library import KnownLock, Library
from lockbuild.workflow.toolchains import read_text
from lockbuild.workflow.workspace import LOCK_NAME, MANIFEST_NAME, Workspace

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8417
_BIND = re.compile(r"(?P<host>[^\[\]:/]+|\[[0-9A-Fa-f:.%a-z]+\])?(?::(?P<port>[0-9]{1,5}))?")
_PAUSE = 1.0
"""Seconds between two looks at whether locks have changed."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that is ready: its ``url``, and what it has."""

    url: str
    library: Library
    missing: int


def parse_bind(text: str) -> tuple[str, int]:
    """``ADDR``, ``ADDR:PORT``, ``:PORT`` or ``PORT``.

    ``ADDR`` is a name, an IPv4 address or an IPv6 one in brackets.
    """
    match = _BIND.fullmatch(f":{text}" if text.isascii() and text.isdecimal() else text)
    if match is None or not text or int(match["port"] or 0) > 65535:
        raise UsageError(
            f"{text!r} is no address and port",
            on="--bind",
            hint=f"write 127.0.0.1:{DEFAULT_PORT}, [::1]:{DEFAULT_PORT} or 0.0.0.0:{DEFAULT_PORT}",
        )
    host = (match["host"] or DEFAULT_HOST).strip("[]")
    return host, DEFAULT_PORT if match["port"] is None else int(match["port"])


def serve(
    workspace: Workspace,
    *,
    bind: tuple[str, int],
    locks: Sequence[Path],
    only: bool,
    tls: tuple[Path, Path | None] | None,
    ready: Callable[[Serving], None],
) -> None:
    """Serve what ``locks`` name, and unless ``only`` those do, what every lock names that was synced with the store.

    Ends when it is interrupted. ``ready`` is called when clients can come. UsageError where a named lock cannot be
    read, no lock is known, or the address or certificate cannot be used.
    """
    from lockbuild.serve.server import Server, tls_context
    from lockbuild.serve.site import Site

    shelf = _Shelf(workspace, [path.absolute() for path in locks], only=only)
    library = shelf.current()
    if not library.locks:
        raise UsageError(
            "no lock is known, so there is nothing to serve",
            on=str(workspace.store.root),
            hint="name one with --lock FILE, or run `lockbuild sync` in a project with this store",
        )
    context = None if tls is None else tls_context(*tls)
    with _scratch(workspace) as scratch:
        site = Site(shelf.current, workspace.store, scratch, workspace.report)
        server = Server(*bind, site.answer, tls=context, report=workspace.report)
        try:
            if not server.is_local:
                workspace.report(Note(_exposed(server.address, len(library.locks)), "warning"))
            missing = sum(not workspace.store.has_blob(digest) for digest in library.by_sha256)
            ready(Serving(server.url, library, missing))
            server.run()
        except KeyboardInterrupt:
            workspace.report(Note("stopped", "debug"))
        finally:
            site.stop()


def _exposed(address: str, locks: int) -> str:
    return (
        f"whoever reaches {address} can read, without a password, everything that {locks} "
        f"lock{'s' if locks != 1 else ''} name{'s' if locks == 1 else ''} (--only narrows that to those named here)"
    )


@contextmanager
def _scratch(workspace: Workspace) -> Iterator[Path]:
    """A directory to work in: of the store, or where that cannot be written to, of the system."""
    with ExitStack() as exits:
        try:
            directory = exits.enter_context(workspace.store.scratch())
        except FetchError:
            directory = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="lockbuild-")))
        yield directory


@dataclass(frozen=True, slots=True)
class _Read:
    """A lock as it was read, with what tells whether its file is still the same; None where it was not valid."""

    stamp: tuple[int, int, int]
    digest: Digest
    lock: Lock | None


class _Shelf:
    """The known locks, read again when they have changed. Thread-safe: nobody waits for another's reading."""

    def __init__(self, workspace: Workspace, named: Sequence[Path], *, only: bool) -> None:
        self._workspace = workspace
        self._named = named
        self._only = only
        self._reading = threading.Lock()
        self._read: dict[Path, _Read] = {}
        self._looked = 0.0
        self._stamp: object = None
        for path in named:
            if read_text(path) is None:
                raise UsageError("there is no such lock", on=str(path), hint="run `lockbuild lock`")
        self._library = self._build(strict=True)

    def current(self) -> Library:
        """The tables as of now."""
        if time.monotonic() - self._looked > _PAUSE and self._reading.acquire(blocking=False):
            try:
                self._looked = time.monotonic()
                if self._state() != self._stamp:
                    self._library = self._build(strict=False)
            finally:
                self._reading.release()
        return self._library

    def _paths(self) -> list[Path]:
        roots = [] if self._only else [root.lock for root in self._workspace.store.roots()]
        return list(dict.fromkeys([*self._named, *roots]))

    def _state(self) -> object:
        """What changes when a lock does, or when the store comes to know which file a source is."""
        places = [self._workspace.store.root / "derivations", *self._paths()]
        return [(path, _stamp(path)) for path in places]

    def _build(self, *, strict: bool) -> Library:
        self._stamp = self._state()
        self._looked = time.monotonic()
        known: dict[Digest, tuple[Path, Lock]] = {}
        for path in self._paths():
            read = self._lock_at(path, strict=strict and path in self._named)
            if read is not None and read.lock is not None:
                known.setdefault(read.digest, (path, read.lock))
        return Library(_named(list(known.values()), self._named), self._workspace.store)

    def _lock_at(self, path: Path, *, strict: bool) -> _Read | None:
        stamp = _stamp(path)
        if stamp is None:
            return None
        read = self._read.get(path)
        if read is None or read.stamp != stamp:
            try:
                text = read_text(path)
                lock = None if text is None else loads(text, str(path))
            except LockbuildError as error:
                if strict:
                    raise
                self._workspace.report(Note(f"what a lock names is not served: {error}", "warning"))
                text, lock = "", None
            read = self._read[path] = _Read(stamp, Digest.of((text or "").encode()), lock)
        return read


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What tells one state of a file from another, be it closed to this user; None where there is none."""
    try:
        status = path.stat()
    except PermissionError:
        return 0, 0, 0
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _named(locks: Sequence[tuple[Path, Lock]], preferred: Sequence[Path]) -> list[KnownLock]:
    """Each with a name of its own: its project's, or its file's. Where several have one, a part of a digest is added
    to those that were not named on the command line."""
    wanted = [(_name(path), path, lock) for path, lock in locks]
    count = Counter(name for name, _, _ in wanted)
    taken: set[str] = set()
    known = []
    for name, path, lock in wanted:
        if count[name] > 1 and (path not in preferred or name in taken):
            name = f"{name}-{Digest.of(os.fsencode(path)).hex[:8]}"
        taken.add(name)
        known.append(KnownLock(name, lock))
    return known


def _name(path: Path) -> str:
    """What a lock is called in URLs: lower case, with single hyphens."""
    name = path.name.removesuffix(".lock")
    if path.name == LOCK_NAME:
        name = path.parent.name
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            name = str(
                tomllib.loads(read_regular(path.parent / MANIFEST_NAME).decode("utf-8"))["project"]["name"]
            )
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "lock"
