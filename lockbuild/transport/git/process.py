"""Runs git: in an environment of its own, watched, and ended with whoever waits for it.

Nothing of the user's or the system's git configuration takes part, no hook runs and nobody is asked for anything.
Settings, among them credentials, travel in git's ``GIT_CONFIG_*`` variables (git-config(1)): other users of the
machine can read the arguments of a process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from lockbuild.errors import FetchError

Settings = Mapping[str, str]
"""Configuration of one run: ``section.key`` or ``section.name.key`` -> value."""
_PASSED = (
    *("PATH", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_ALWAYS: Settings = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "credential.helper": "",
    "fetch.fsckObjects": "true",
    "fetch.unpackLimit": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "submodule.recurse": "false",
}
# Read by the processes of git that serve a file:// place, too, which see nothing else of our settings. They may
# leave out what we do not want, send any object, and serve a repository that belongs to somebody else.
_SERVING = """\
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
[safe]
\tdirectory = *
"""
_LIMIT = 256 << 20
_STDERR_LIMIT = 1 << 20
_CHUNK = 1 << 16
_GRACE = 2.0
_INSTALL = "install git, version 2.31 or newer"


class GitFailedError(Exception):
    """git ended with a failure; ``text`` is what it said, untranslated and not redacted."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class GitSilentError(GitFailedError):
    """git was ended because nothing came for too long."""


class GitStoppedError(Exception):
    """git was ended because `Git.stop` was called."""


class Git:
    """Runs git with ``home`` (made when first needed) for its own files. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        arguments: Sequence[str],
        *,
        repository: Path | None = None,
        settings: Settings | None = None,
        stdin: bytes = b"",
        patience: float | None = None,
        said: Callable[[str], None] | None = None,
    ) -> bytes:
        """What git prints. ``said`` gets each line of its messages as it comes, progress included.

        With ``patience`` it is ended after as many seconds in which it printed nothing (GitSilentError). GitFailedError
        where it fails or prints more than 256 MiB, GitStoppedError after `stop`, FetchError where there is no git.
        """
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = self.start(arguments, repository=repository, settings=settings, stdin=given)
        with self.ending(process):
            output, messages = self._attend(process, patience, said)
            status = process.wait()
        with self._lock:
            if self._stopped:
                raise GitStoppedError
        if status:
            raise GitFailedError(messages, status)
        return output

    def start(
        self,
        arguments: Sequence[str],
        *,
        repository: Path | None = None,
        settings: Settings | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """A running git with pipes for its output and messages; the caller hands it to `ending`. ``variables`` are
        added to its environment."""
        where = [f"--git-dir={repository}"] if repository is not None else []
        with self._lock:
            if self._stopped:
                raise GitStoppedError
            try:
                process = subprocess.Popen(
                    ["git", *where, *arguments],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    env={**self._environment(settings or {}), **(variables or {})},
                    cwd=self._home,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise FetchError("git is needed, and there is none on PATH", hint=_INSTALL) from None
            except OSError as error:
                raise FetchError(f"git cannot be run: {error.strerror}", hint=_INSTALL) from error
            self._running.add(process)
        return process

    @contextlib.contextmanager
    def ending(self, process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """At the end, however it comes, the process and all that it started are gone."""
        try:
            yield process
        finally:
            with self._lock:
                self._running.discard(process)
            if process.poll() is None:
                _end(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def stop(self) -> None:
        """End every running git; none starts any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _signal(process, signal.SIGKILL)

    def _attend(
        self, process: subprocess.Popen[bytes], patience: float | None, said: Callable[[str], None] | None
    ) -> tuple[bytes, str]:
        """Read both pipes to their ends."""
        assert process.stdout is not None
        assert process.stderr is not None
        output = bytearray()
        messages = bytearray()
        line = b""
        heard = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            while selector.get_map():
                left = None if patience is None else heard + patience - time.monotonic()
                ready = selector.select(left)
                if not ready and left is not None:
                    raise GitSilentError(f"nothing came for {patience:g} seconds", -1)
                heard = time.monotonic()
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        output += chunk
                        if len(output) > _LIMIT:
                            raise GitFailedError("the answer is longer than 256 MiB", -1)
                    else:
                        messages += chunk
                        del messages[:-_STDERR_LIMIT]
                        *lines, line = (line + chunk).replace(b"\r", b"\n").split(b"\n")
                        line = line[-_CHUNK:]
                        for one in lines:
                            if said is not None:
                                said(one.decode("utf-8", "replace"))
        return bytes(output), messages.decode("utf-8", "replace")

    def _environment(self, settings: Settings) -> dict[str, str]:
        told = {name: os.environ[name] for name in _PASSED if name in os.environ}
        told |= {
            "HOME": str(
                self._home
            ),  # so that no .netrc is read; whom to trust with what is decided elsewhere
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._serving()),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30 -oPermitLocalCommand=no",
            "GIT_PROTOCOL_FROM_USER": "0",
        }
        every = {**_ALWAYS, **settings}
        told["GIT_CONFIG_COUNT"] = str(len(every))
        for number, (key, value) in enumerate(every.items()):
            told[f"GIT_CONFIG_KEY_{number}"] = key
            told[f"GIT_CONFIG_VALUE_{number}"] = value
        return told

    def _serving(self) -> Path:
        path = self._home / "serving"
        try:
            if path.read_text() == _SERVING:
                return path
        except OSError:
            pass
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._home, delete=False) as file:
                file.write(_SERVING)
            Path(file.name).rename(path)
        except OSError as error:
            from lockbuild.errors import storage_error

            raise storage_error(error, "cannot keep git repositories", on=str(self._home)) from error
        return path


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it and its children to end (git then removes its temporary files), then make them."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
