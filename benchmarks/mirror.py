"""A mirror on the loopback interface: what a lock names, and the signed indexes that the peer reads.

Both sides download from it, so that neither the line nor anybody's server is measured. It stands in a
directory tree of plain files: a Debian archive (``debian/dists``, ``debian/pool``) and a simple repository
(PEP 503) for the wheels. As a program (``python -m benchmarks.mirror DIRECTORY``) it serves such a tree from
a process of its own, and prints its port.
"""

from __future__ import annotations

import functools
import hashlib
import html
import lzma
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from lockbuild.config import Config
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, Source
from lockbuild.store import Store
from lockbuild.transport.http import Http

_INDEX_LIMIT = 1 << 30


def collect(directory: Path, locks: Iterable[Lock], store: Store, config: Config) -> None:
    """Put into ``directory`` every file that ``locks`` name (hard links to blobs of ``store``, which has them
    all), and the indexes of their suites as the configured Debian mirror has them now."""
    locks = list(locks)
    pages: dict[str, dict[str, Source]] = {}
    for source in {source.sha256: source for lock in locks for source in lock.sources}.values():
        assert source.path is not None, f"{source.purl} has a place of its own"
        if source.purl.startswith("pkg:deb/"):
            _link(store, source, directory / "debian" / source.path)
        else:
            project = source.purl.removeprefix("pkg:pypi/").partition("@")[0]
            _link(store, source, directory / "simple" / project / source.path)
            pages.setdefault(project, {})[source.path] = source
    for project, files in pages.items():
        links = "".join(
            f'<a href="{html.escape(name)}#sha256={blob(source).hex}">{html.escape(name)}</a>\n'
            for name, source in files.items()
        )
        (directory / "simple" / project / "index.html").write_text(f"<!DOCTYPE html>\n{links}")
    with Http(config) as http:
        for suite in {suite.name for lock in locks for suite in lock.suites}:
            _suite(http, config.debian_mirrors()[0], suite, directory / "debian" / "dists" / suite)


def blob(source: Source) -> Digest:
    """The digest that the source's file has in the store."""
    assert source.sha256 is not None, f"{source.purl} was not fetched yet"
    return source.sha256


def _link(store: Store, source: Source, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        os.link(store.blob_path(blob(source)), path)


def _suite(http: Http, mirror: str, suite: str, directory: Path) -> None:
    index = directory / "main" / "binary-amd64" / "Packages.xz"
    index.parent.mkdir(parents=True, exist_ok=True)
    base = f"{mirror.rstrip('/')}/dists/{suite}"
    (directory / "InRelease").write_bytes(http.get(f"{base}/InRelease", limit=_INDEX_LIMIT))
    packages = http.get(f"{base}/main/binary-amd64/Packages.xz", limit=_INDEX_LIMIT)
    lzma.decompress(packages)
    index.write_bytes(packages)
    by_hash = index.parent / "by-hash" / "SHA256" / hashlib.sha256(packages).hexdigest()
    by_hash.parent.mkdir(parents=True, exist_ok=True)
    by_hash.write_bytes(packages)


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The URL of a server of ``directory``, in a process that ends with the context."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.mirror", str(directory)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.terminate()
        server.wait()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def copyfile(self, source: Any, outputfile: IO[bytes]) -> None:  # type: ignore[override]
        """By sendfile(2): the server shall cost as little as it can of the processors that are measured."""
        self.connection.sendfile(source)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def _serve(directory: str) -> None:
    handler = functools.partial(_Handler, directory=directory)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    _serve(sys.argv[1])
