"""A whole small world for tests of the command line: a signed Debian archive on loopback whose one package is
busybox, a configuration that points there, and a project that builds with a shell script.

Everything that a real project meets is real here (signature, closure, download, unpacking, sandbox), only small:
lock, sync and build take a second together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lockbuild.model.platform import Platform
from tests.support.command import Result, lockbuild, python_path
from tests.support.debian_archive import DebianArchive, signing_key
from tests.support.http_server import Server

PLATFORM = Platform.of_machine(os.uname().machine)

TOOLCHAIN = f"""\
schema = 1
name = "tiny"
platforms = ["{PLATFORM}"]

[base.debian]
suite = "forky"
packages = ["busybox", "greeting"]

[derive.words]
steps = ["mkdir -p $OUT", "cat /usr/share/greeting | tr a-z A-Z > $OUT/words"]
exports = {{ WORDS = "$OUT/words" }}
"""

PROJECT = """\
[project]
name = "tiny"
toolchain = "./toolchain.toml"

[targets.tiny]
steps = ["cat $WORDS $SOURCE/main.txt > out.txt", "mkdir lib; cp out.txt lib/copy.txt"]
outputs = ["out.txt", "lib/*.txt"]
"""


@dataclass
class TinyWorld:
    """``directory`` holds the project, and the store unless it is that of another world; ``server`` serves
    ``archive`` (or that of the world that this one was forked from), and ``config`` points there."""

    directory: Path
    archive: DebianArchive
    server: Server
    config: Path
    shared_store: Path | None = None
    extra_environ: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.directory / "project"

    @property
    def store(self) -> Path:
        return self.shared_store or self.directory / "store"

    @property
    def environ(self) -> dict[str, str]:
        return {"LOCKBUILD_CONFIG": str(self.config), **self.extra_environ}

    def fork(self, directory: Path, *, store: bool = False) -> TinyWorld:
        """The same world with a copy of the project below ``directory``, and with ``store`` one of the store."""
        shutil.copytree(self.project, directory / "project", symlinks=True)
        if store:
            subprocess.run(["cp", "-a", str(self.store), str(directory / "store")], check=True)
        shared = None if store else self.store
        return TinyWorld(
            directory, self.archive.copy(), self.server, self.config, shared, dict(self.extra_environ)
        )

    def run(
        self,
        *arguments: str | Path,
        status: int | None = 0,
        store: Path | None = None,
        project: Path | None = None,
        environ: Mapping[str, str] | None = None,
        backend: str = "bubblewrap",
    ) -> Result:
        """Run lockbuild on the project."""
        common = ("--project", project or self.project, "--store", store or self.store, "--backend", backend)
        return lockbuild(*common, *arguments, status=status, environ={**self.environ, **(environ or {})})

    @property
    def process_environ(self) -> dict[str, str]:
        """The environment in which `run` runs it, with the interpreter as PYTHON, for a test that starts it itself."""
        return {**os.environ, **python_path(), **self.environ, "PYTHON": sys.executable}

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the project."""
        file = self.project / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def publish(self) -> None:
        """Bring the mirror up to date with what was added to the archive."""
        self.archive.publish()
        self.archive.upload(self.server)


@contextmanager
def tiny_world(directory: Path) -> Iterator[TinyWorld]:
    """Make it below ``directory``."""
    busybox = shutil.which("busybox")
    assert busybox, "these tests need a static busybox: apt install busybox-static"
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    work = directory / "work"
    work.mkdir(parents=True)
    with signing_key() as key:
        archive = DebianArchive(key, work)
        archive.add(
            "busybox",
            architecture=PLATFORM.debian_architecture,
            contents={"usr/bin/busybox": Path(busybox).read_bytes()},
            links={f"usr/bin/{name}": "busybox" for name in names if name != "busybox"},
            essential="yes",
        )
        archive.add("greeting", contents={"usr/share/greeting": "hello\n"})
        archive.publish()
        with archive.serving() as server:
            project = directory / "project"
            project.mkdir()
            (project / "toolchain.toml").write_text(TOOLCHAIN)
            (project / "lockbuild.toml").write_text(PROJECT)
            (project / "main.txt").write_text("world\n")
            keyring = directory / "keyring.gpg"
            keyring.write_bytes(key.keyring.read_bytes())
            (directory / "config.toml").write_text(
                f'[debian]\nmirrors = ["{server.url}/debian"]\nsnapshot = "{server.url}/snapshot"\n'
                f'keyring = "{keyring}"\nallow-expired = false\n[network]\nretries = 0\n'
            )
            yield TinyWorld(directory, archive, server, directory / "config.toml")
