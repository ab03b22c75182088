"""Locked commits over git's smart HTTP protocol, for reading: gitprotocol-http(5), gitprotocol-v2(5).

``git upload-pack`` does the work, one process a request; nothing can be pushed, as no other service is started.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO

from lockbuild.events import Note, Reporter
from lockbuild.serve.git_view import GitViews, View, ended
from lockbuild.serve.library import Library, Location
from lockbuild.serve.message import Answer, Data, Outlet, Request, absent, text

SERVICE = "git-upload-pack"
_PROTOCOL = re.compile(r"[a-z0-9=:.,-]{1,100}")
_SETTINGS = {
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",
    "pack.threads": "1",
}
_UNPACKED = 16 << 20
_CHUNK = 1 << 16
_AT_ONCE = 8
_PATIENCE = 20.0


class GitService:
    """Answers for repositories. A bounded number of processes runs at once."""

    def __init__(self, views: GitViews, report: Reporter) -> None:
        self._views = views
        self._report = report
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def answer(self, library: Library, segments: Sequence[str], request: Request) -> Answer | None:
        """The answer where ``segments`` (scheme, host, path) are those of a known repository; None where not."""
        split = _split(segments)
        if split is None:
            return None
        where, action = split
        repository = library.repositories.get(where)
        if repository is None:
            return None
        if action == "info/refs" and request.query != f"service={SERVICE}":
            pushing = "receive-pack" in request.query
            return text(
                "nothing can be pushed here" if pushing else "only git's smart protocol is spoken here", 403
            )
        if action == SERVICE and request.method != "POST":
            return text("it takes POST", 405).having(Allow="POST")
        if action not in ("info/refs", SERVICE):
            return absent("only git's smart protocol is spoken here")
        if not self._free.acquire(timeout=_PATIENCE):
            return text("too many are fetching now", 503).having(Retry_After="5")
        with ExitStack() as exits:
            exits.callback(self._free.release)
            view = self._views.view(repository)
            if view is None:
                return absent(
                    "a known lock names commits of this repository, but they are not in this mirror's cache of git"
                )
            protocol = request.headers.get("git-protocol", "")
            variables = {"GIT_PROTOCOL": protocol} if _PROTOCOL.fullmatch(protocol) else {}
            if action == "info/refs":
                return self._references(view, variables)
            return self._objects(view, variables, request, exits)

    def _references(self, view: View, variables: dict[str, str]) -> Answer:
        process = self._start(view, ["--advertise-refs"], variables, subprocess.DEVNULL)
        with self._views.git.ending(process):
            assert process.stdout is not None
            data = process.stdout.read()
            if process.wait():
                self._report(Note(f"git upload-pack: {ended(process)}", "warning"))
                return text("git cannot say what is there", 500)
        if "version=2" not in variables.get("GIT_PROTOCOL", ""):
            data = _packet(f"# service={SERVICE}\n".encode()) + b"0000" + data
        return Answer(Data(data), f"application/x-{SERVICE}-advertisement").having(Cache_Control="no-cache")

    def _objects(self, view: View, variables: dict[str, str], request: Request, exits: ExitStack) -> Answer:
        kind = f"application/x-{SERVICE}-result"
        if request.headers.get("content-type") != f"application/x-{SERVICE}-request" or request.body is None:
            return text("that is no request of git", 415)
        wishes = TemporaryFile()  # noqa: SIM115  closed when the answer is
        exits.callback(wishes.close)
        try:
            _copy(request, wishes)
        except ValueError as error:
            return text(str(error), 400)
        if refusal := _refusal(view, wishes):
            return Answer(Data(_packet(f"ERR {refusal}\n".encode())), kind)
        wishes.seek(0)
        process = self._start(view, ["--stateless-rpc"], variables, wishes)
        exits.enter_context(self._views.git.ending(process))
        return Answer(_Pack(process, exits.pop_all(), self._report), kind).having(Cache_Control="no-cache")

    def _start(
        self, view: View, options: list[str], variables: dict[str, str], stdin: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        arguments = ["upload-pack", "--strict", "--timeout=60", *dict.fromkeys(["--stateless-rpc", *options])]
        return self._views.git.start(
            [*arguments, str(view.path)], settings=_SETTINGS, stdin=stdin, variables=variables
        )


class _Pack:
    """What a git prints, as it comes. The process is gone when this is closed."""

    size = None

    def __init__(self, process: subprocess.Popen[bytes], exits: ExitStack, report: Reporter) -> None:
        self._process = process
        self._exits = exits
        self._report = report

    def send(self, out: Outlet, start: int, count: int) -> None:
        """Send all of it. Where git fails, it tells the client so itself."""
        assert self._process.stdout is not None
        while data := os.read(self._process.stdout.fileno(), _CHUNK):
            out.write(data)
        if self._process.wait():
            self._report(Note(f"git upload-pack: {ended(self._process)}", "debug"))

    def close(self) -> None:
        """End the process."""
        self._exits.close()


def _split(segments: Sequence[str]) -> tuple[Location, str] | None:
    """The repository that is meant, and what is wanted of it."""
    for count, action in ((2, "info/refs"), (1, SERVICE), (1, "HEAD")):
        if len(segments) > 2 + count and "/".join(segments[-count:]) == action:
            scheme, host, *path = segments[:-count]
            return Location(scheme, host, "/".join(path)).repository, action
    return None


def _copy(request: Request, out: IO[bytes]) -> None:
    """The request's body, unpacked where git has packed it. ValueError where that is not sound, or too much."""
    assert request.body is not None
    encoding = request.headers.get("content-encoding", "identity")
    if encoding not in ("gzip", "x-gzip", "identity"):
        raise ValueError("that encoding is not known here")
    unpack = zlib.decompressobj(wbits=31) if encoding.endswith("gzip") else None
    size = 0
    while data := request.body.read(_CHUNK):
        try:
            data = data if unpack is None else unpack.decompress(data, _UNPACKED - size + 1)
        except zlib.error:
            raise ValueError("the body is not sound") from None
        size += len(data)
        if size > _UNPACKED:
            raise ValueError("the body is too long")
        out.write(data)
    out.flush()


def _refusal(view: View, wishes: IO[bytes]) -> str | None:
    """What to tell a client that wants more than there is, before git stumbles over it; None where it can be had."""
    wanted = filtered = shallow = False
    wishes.seek(0)
    for packet in _packets(wishes):
        filtered = filtered or packet.startswith(b"filter ")
        shallow = shallow or packet.startswith(b"deepen ")
        wanted = wanted or (
            packet.startswith(b"want ") and packet[5:45].decode("ascii", "replace") in view.commits
        )
    if wanted and filtered and not shallow:
        # git 2.39 asks for such a commit again and again, each time from a further process of its.
        return "locked commits are here without their history: with a filter, fetch them with --depth=1"
    if wanted and not filtered and view.missing:
        count = (
            f"{view.missing} files of the locked commits are"
            if view.missing > 1
            else "1 file of the locked commits is"
        )
        return (
            f"{count} not here, as the lock leaves that out: fetch with --depth=1 --filter=blob:none, "
            "or take the tree by its digest"
        )
    return None


def _packets(stream: IO[bytes]) -> Iterator[bytes]:
    while len(head := stream.read(4)) == 4:
        try:
            length = int(head, 16)
        except ValueError:
            return
        if length > 4:
            yield stream.read(length - 4)


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data
