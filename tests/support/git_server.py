"""Real git repositories, and git's own smart-HTTP server on the loopback interface, that misbehaves as told.

The server is git-http-backend(1) behind a small CGI gateway. Repositories are served over file:// as well.
"""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests.support.listening import Listener, listen, running

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


def run_git(*arguments: str, cwd: Path, stdin: bytes = b"", check: bool = True, **variables: str) -> str:
    """What git prints, without the final newline."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **_IDENTITY, **variables},
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@dataclass
class Repository:
    """A bare repository below a directory; each commit is one second later than the one before."""

    path: Path
    time: int = 1_700_000_000
    branch: str = "main"
    links: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        self.time += 1
        date = f"{self.time} +0000"
        return run_git(
            *arguments, cwd=self.path, stdin=stdin, check=check, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date
        )

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=data)

    def raw_tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree of these entries (mode, name, id) whatever git thinks of them."""
        data = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=data)

    def commit(
        self,
        files: Mapping[str, bytes | str | None] | None = None,
        *,
        executable: tuple[str, ...] = (),
        symlinks: Mapping[str, str] | None = None,
        submodules: Mapping[str, tuple[str, str]] | None = None,
        message: str = "a change",
        branch: str | None = None,
        tree: str | None = None,
    ) -> str:
        """Commit a change to what the branch has; None removes a file. ``submodules``: path -> (URL, commit)."""
        branch = branch or self.branch
        parent = self.git("rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False)
        if tree is None:
            tree = self._tree(parent, files or {}, executable, symlinks or {}, submodules or {})
        parents = ["-p", parent] if parent else []
        commit = self.git("commit-tree", tree, *parents, "-m", message)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def tag(self, name: str, commit: str, *, annotated: bool = False) -> None:
        options = ["-a", "-m", name] if annotated else []
        self.git("tag", "-f", *options, name, commit)

    def configure(self, key: str, value: str) -> None:
        self.git("config", key, value)

    def _tree(
        self,
        parent: str,
        files: Mapping[str, bytes | str | None],
        executable: tuple[str, ...],
        symlinks: Mapping[str, str],
        submodules: Mapping[str, tuple[str, str]],
    ) -> str:
        self.git("read-tree", parent or "--empty")
        lines = []
        contents: dict[str, bytes | str | None] = dict(files)
        for path, (url, commit) in submodules.items():
            self.links[path] = url
            lines.append(f"160000 {commit}\t{path}")
        if submodules:
            contents[".gitmodules"] = "".join(
                f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n' for path, url in self.links.items()
            )
        for path, data in contents.items():
            if data is None:
                lines.append(f"0 {'0' * 40}\t{path}")
                continue
            mode = "100755" if path in executable else "100644"
            lines.append(f"{mode} {self.blob(data if isinstance(data, bytes) else data.encode())}\t{path}")
        for path, target in symlinks.items():
            lines.append(f"120000 {self.blob(target.encode())}\t{path}")
        self.git("update-index", "--index-info", stdin="".join(f"{line}\n" for line in lines).encode())
        return self.git("write-tree")


def new_repository(path: Path) -> Repository:
    """An empty one."""
    path.mkdir(parents=True)
    run_git("init", "--quiet", "--bare", "-b", "main", ".", cwd=path)
    return Repository(path)


@cache
def _backend() -> str:
    return str(Path(run_git("--exec-path", cwd=Path("/"))) / "git-http-backend")


@dataclass
class GitRequest:
    """What came in: ``body`` is what the client sent, uncompressed."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class GitServer:
    """A running server; ``url`` has no slash at its end.

    ``protocol`` False hides the client's wish for protocol 2; ``rewrite`` changes what the client sends;
    ``before`` is called with each request and may answer it itself (True).
    """

    root: Path
    url: str = ""
    credentials: tuple[str, str] | None = None
    protocol: bool = True
    rewrite: Callable[[bytes], bytes] | None = None
    before: Callable[[Handler, GitRequest], bool] | None = None
    requests: list[GitRequest] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def repository(self, name: str) -> Repository:
        """A new one, at ``url/name``."""
        return new_repository(self.root / name)

    def sent(self) -> list[GitRequest]:
        """The requests that fetch objects."""
        return [
            request
            for request in self.requests
            if b"command=fetch" in request.body or b"want " in request.body
        ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def do_GET(self) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = GitRequest(self.command, self.path, headers, self._body(headers))
        with owner.lock:
            owner.requests.append(request)
        if owner.credentials is not None:
            expected = base64.b64encode(":".join(owner.credentials).encode()).decode()
            if headers.get("authorization") != f"Basic {expected}":
                self.reply(401, b"who are you?", {"WWW-Authenticate": "Basic realm=test"})
                return
        if owner.before is not None and owner.before(self, request):
            return
        self._backend(request)

    do_POST = do_GET  # noqa: N815  the name that http.server looks for

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(headers.get("content-length", 0)))
        return gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body

    def _backend(self, request: GitRequest) -> None:
        owner = self.server.owner
        path, _, query = request.path.partition("?")
        body = owner.rewrite(request.body) if owner.rewrite is not None else request.body
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(owner.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
        }
        if owner.protocol and "git-protocol" in request.headers:
            environ["GIT_PROTOCOL"] = request.headers["git-protocol"]
        done = subprocess.run([_backend()], input=body, capture_output=True, env=environ, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        status = 200
        headers = {}
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            else:
                headers[name] = value
        self.reply(status, content, headers)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving_git(root: Path, *, certificate: Path | None = None) -> Iterator[GitServer]:
    """A server of what is below ``root`` until the end of the block; with TLS where there is a ``certificate``."""
    listener = listen(Handler)
    server = GitServer(root, f"http{'s' if certificate else ''}://127.0.0.1:{listener.server_port}")
    listener.owner = server
    with running(listener, certificate=certificate):
        yield server
