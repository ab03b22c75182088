"""Unpack Debian packages, each into a directory of its own, in processes of their own.

Decompression is what takes the time, and Python's threads gain little where thousands of small
files are written in between: so each worker is a process. It takes its orders from a socket, and
ends when that is closed, or at once when the process that started it dies.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockbuild.archive.deb import control_fields, control_files, open_data
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.environment.maintainer import Alternative, Diversion, alternatives, diversions
from lockbuild.errors import FetchError, IntegrityError, LockbuildError

_CHUNK = 1 << 18
_PR_SET_PDEATHSIG = 1
_SIZE_LIMIT = 16 << 30
"""Bytes that one package may unpack to; the largest of Debian stay below a quarter of it."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """One package, unpacked below ``tree``. Its paths are relative, without a leading ``./``."""

    deb: str
    tree: str
    package: str
    architecture: str
    control: str
    replaces: frozenset[str]
    directories: tuple[str, ...]
    files: tuple[str, ...]
    links: dict[str, str]
    alternatives: tuple[Alternative, ...]
    diversions: tuple[Diversion, ...]


def unpack(deb: Path, tree: Path) -> Unpacked:
    """Unpack ``deb`` into the new directory ``tree``: modes 0644 and 0755, mtime 0, links as they are.

    Raises IntegrityError for a broken package or one with devices, absolute names or ``..``;
    FetchError when the disk is full. Sets nothing outside ``tree``.
    """
    import tarfile

    control = control_files(deb)
    fields = control_fields(control["control"])
    package = fields.get("package", "")
    scripts = [
        control[name].decode("utf-8", "replace") for name in ("preinst", "postinst") if name in control
    ]
    directories: list[str] = []
    files: list[str] = []
    links: dict[str, str] = {}
    tree.mkdir()
    with (
        TreeWriter(tree, origin=f"package {package}", rooted=True, limit=_SIZE_LIMIT) as writer,
        open_data(deb) as stream,
        tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK, errors="surrogateescape") as tar,
    ):
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            if member.isdir():
                writer.directory(member.name)
                directories.append(path)
            elif member.issym():
                writer.symlink(member.name, member.linkname)
                links[path] = member.linkname
            elif member.islnk():
                writer.hardlink(member.name, member.linkname)
                files.append(path)
            elif member.isreg():
                content = tar.extractfile(member) if member.size else None
                writer.file(member.name, content or b"", executable=bool(member.mode & 0o111))
                files.append(path)
            else:
                raise IntegrityError(
                    f"holds {member.name!r}, which is a device, a fifo or something unknown",
                    on=f"package {package}",
                    hint="no package of a sound archive holds such a thing; do not use this one",
                )
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep every header
    return Unpacked(
        deb=str(deb),
        tree=str(tree),
        package=package,
        architecture=fields.get("architecture", ""),
        control=control["control"].decode("utf-8", "surrogateescape"),
        replaces=frozenset(_names(fields.get("replaces", ""))),
        directories=tuple(directories),
        files=tuple(files),
        links=links,
        alternatives=tuple(found for script in scripts for found in alternatives(script)),
        diversions=tuple(found for script in scripts for found in diversions(script)),
    )


def _names(relation: str) -> Iterator[str]:
    """The package names of a relationship field without alternatives, as Replaces."""
    for item in relation.split(","):
        name = item.partition("(")[0].partition(":")[0].strip()
        if name:
            yield name


def serve(descriptor: int, parent: int) -> None:
    """The life of a worker: take (deb, tree) from the socket, answer with an `Unpacked` or an exception.

    It ends with the process ``parent``, even if that was killed: nobody waits for what it would write.
    """
    import ctypes
    import signal
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and closes the socket
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.umask(0o022)
    connection: Connection = Connection(descriptor)
    while True:
        try:
            deb, tree = connection.recv()
        except EOFError:
            return
        answer: Unpacked | Exception
        try:
            answer = unpack(Path(deb), Path(tree))
        except (LockbuildError, OSError) as error:
            answer = error
        connection.send(answer)


def unpack_all(
    debs: Sequence[Path], work: Path, *, processes: int = 2, done: Callable[[Path], None]
) -> list[Unpacked]:
    """Unpack each of ``debs`` into ``work / "<its index>"``; the results in the order of ``debs``.

    ``done`` is called in this thread as each is finished. The first failure ends all workers and is raised.
    """
    import subprocess
    from multiprocessing.connection import Connection, wait

    # The largest first, so that no worker is left alone with one at the end.
    queue = deque(sorted(range(len(debs)), key=lambda index: -debs[index].stat().st_size))
    results: dict[int, Unpacked] = {}
    workers: dict[Connection, subprocess.Popen[bytes]] = {}
    busy: dict[Connection, int] = {}
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}  # noqa: PTH109

    def give(connection: Connection) -> None:
        index = queue.popleft()
        busy[connection] = index
        try:
            connection.send((str(debs[index]), str(work / str(index))))
        except ConnectionError:
            raise _died(debs[index]) from None

    try:
        for _ in range(min(processes, len(debs))):
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        "-c",
                        f"from {__name__} import serve; serve({theirs.fileno()}, {os.getpid()})",
                    ],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    # An interrupt of the terminal is ours to answer, also while the worker still starts.
                    start_new_session=True,
                    env=variables,
                )
            connection: Connection = Connection(ours.detach())
            workers[connection] = process
            give(connection)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                index = busy.pop(ready)
                try:
                    answer = ready.recv()
                except (EOFError, ConnectionError):
                    raise _died(debs[index]) from None
                if isinstance(answer, Exception):
                    raise answer
                results[index] = answer
                done(debs[index])
                if queue:
                    give(ready)
    finally:
        for connection, process in workers.items():
            connection.close()
            if busy:
                process.kill()
            process.wait()
    return [results[index] for index in range(len(debs))]


def _died(deb: Path) -> FetchError:
    return FetchError(
        "the process that unpacked it ended without an answer",
        on=str(deb),
        hint="look for an out-of-memory kill (`dmesg`), then run again",
    )
