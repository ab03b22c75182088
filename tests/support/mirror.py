"""``lockbuild serve`` as a process, and what its page says, for tests of what other programs make of it."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.support.tiny import TinyWorld


@dataclass
class Mirror:
    """A running mirror; ``about`` is what it printed with --json."""

    process: subprocess.Popen[str]
    about: dict[str, Any]
    log: IO[str]

    @property
    def url(self) -> str:
        return str(self.about["url"])

    @property
    def host(self) -> str:
        """Host and port."""
        return self.url.partition("://")[2]

    @property
    def said(self) -> str:
        """What it wrote to stderr so far."""
        return Path(self.log.name).read_text()

    def get(self, path: str) -> bytes:
        """The body of an answer; HTTPError for another status than a good one."""
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=30) as answer:
            return bytes(answer.read())

    def status(self, path: str) -> int:
        """The status of an answer."""
        try:
            self.get(path)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return 200

    def snippet(self, title: str) -> str:
        """What the page gives to paste under ``title``."""
        page = self.get("").decode()
        match = re.search(f"<h2>{re.escape(title)}</h2>.*?<pre>(.*?)</pre>", page, re.DOTALL)
        assert match is not None, page
        return html.unescape(match[1])

    def wait_until_it_says(self, text: str, seconds: float = 20) -> None:
        """AssertionError where it does not."""
        limit = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < limit, self.said
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it as a supervisor does; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def mirroring(
    world: TinyWorld,
    *arguments: str | Path,
    bind: str = "127.0.0.1:0",
    environ: Mapping[str, str] | None = None,
) -> Iterator[Mirror]:
    """A mirror of the world's project and store until the end of the block, with its access log."""
    command = [world.process_environ["PYTHON"], "-m", "lockbuild", "serve"]
    common = ("--project", world.project, "--store", world.store, "--json", "-v")
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        process = subprocess.Popen(
            [*command, *map(str, (*common, f"--bind={bind}", *arguments))],
            env={**world.process_environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            yield Mirror(process, _about(process, Path(log.name)), log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(20)
            assert process.stdout is not None
            process.stdout.close()


def _about(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    assert process.stdout is not None
    lines: list[str] = []
    while line := process.stdout.readline():
        lines.append(line)
        if line == "}\n":
            return dict(json.loads("".join(lines)))
    process.wait(20)
    raise AssertionError(f"the mirror did not start: {log.read_text()}{''.join(lines)}")


def run(*argv: str | Path, status: int | None = 0, cwd: Path | None = None, **variables: str) -> str:
    """What a program prints, both its streams; without the user's own configuration of pip or git."""
    done = subprocess.run(
        [str(word) for word in argv],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "GIT_"))},
            "PIP_CONFIG_FILE": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            **variables,
        },
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    said = f"$ {' '.join(map(str, argv))}\n{done.stdout}[status {done.returncode}]"
    assert status is None or done.returncode == status, said
    return done.stdout
