"""Everything that the benchmarks work on, prepared before a clock runs: projects, locks, a store, a mirror.

Nothing is deleted until the end: after a large deletion ext4 takes many times longer to make files, and
the next measurement would pay for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import tomlkit

from benchmarks import mirror
from benchmarks.measure import CHECKOUT, lockbuild, seconds
from lockbuild.config import load
from lockbuild.model.lock import Lock
from lockbuild.model.lockfile import loads
from lockbuild.store import Store

EXAMPLES = ("hello", "zlib", "lua")
MORE_PACKAGES = ("golang-go", "openjdk-21-jdk-headless", "rustc")
"""What the larger environment has beside the example's: it is about twice as large."""
MORE_TOOLS = ("jinja2", "lxml", "meson", "numpy", "pillow", "pygments", "pyyaml", "setuptools")
"""Further tools, so that there are ten with CMake and Ninja."""


@dataclass(frozen=True)
class Site:
    """A directory with all of it. Parts are made when a benchmark first asks for them."""

    directory: Path
    exits: ExitStack
    wanted_runs: int | None = None
    _ready: set[str] = field(default_factory=set)

    @cached_property
    def store(self) -> Store:
        """The store that projects are prepared in; a benchmark of a cold store takes a `fresh` one."""
        return Store(self.directory / "store")

    def runs(self, usual: int) -> range:
        """One round of measurements for each number: ``usual``, unless another count was asked for."""
        return range(self.wanted_runs or usual)

    def fresh(self, name: str) -> Path:
        """A new, empty directory, of its own for each call."""
        parent = self.directory / "runs"
        parent.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))

    def project(self, name: str) -> Path:
        """A copy of the example ``name``, locked against today's mirror and made real in the store.

        ``environment`` is the toolchain of the examples without what it derives, and ``large`` that with
        `MORE_PACKAGES`; ``tools`` is it with `MORE_TOOLS`, and ``changed`` that with another version of one.
        """
        project = self.directory / "projects" / name
        if name not in self._ready:
            if not project.exists():
                _copy(name, project)
            self._tell(f"locking {name} and making it real (at first: downloads, and Emscripten's libraries)")
            common = ("--project", project, "--store", self.store.root, "--backend", "bubblewrap")
            seconds(lockbuild("lock", "--allow-expired", "--materialise", *common))
            self._ready.add(name)
        return project

    def lock(self, name: str) -> Lock:
        """The lock of `project`."""
        file = self.project(name) / "lockbuild.lock"
        return loads(file.read_text(), str(file))

    @cached_property
    def mirror(self) -> str:
        """The URL of a running mirror of what ``environment`` and ``large`` need."""
        directory = self.directory / "mirror"
        names = ("environment", "large")
        locks = [self.lock(name) for name in names]
        stamp = directory / "made-from"
        wanted = "".join((self.project(name) / "lockbuild.lock").read_text() for name in names)
        if not stamp.exists() or stamp.read_text() != wanted:
            mirror.collect(directory, locks, self.store, load(os.environ))
            stamp.write_text(wanted)
        return self.exits.enter_context(mirror.serving(directory))

    @cached_property
    def configuration(self) -> Mapping[str, str]:
        """The variables that make lockbuild download from the mirror alone."""
        file = self.directory / "config.toml"
        file.write_text(
            f'[debian]\nmirrors = ["{self.mirror}/debian"]\n[pypi]\nindexes = ["{self.mirror}/simple"]\n'
        )
        return {"LOCKBUILD_CONFIG": str(file)}

    def engine(self) -> dict[str, str]:
        """Start a Docker engine that has no image yet, until the end of the run: the variables that name it."""
        from tests.support.engine import private_engine

        return self.exits.enter_context(private_engine()).environ

    @staticmethod
    def _tell(what: str) -> None:
        sys.stderr.write(f"preparing: {what}\n")


@contextmanager
def site(kept: Path | None, runs: int | None = None) -> Iterator[Site]:
    """A site in ``kept``, where a later run finds what was prepared, or in a directory that is removed."""
    with ExitStack() as exits:
        if kept is None:
            kept = Path(tempfile.mkdtemp(prefix="lockbuild-benchmarks-"))
            exits.callback(shutil.rmtree, kept)
        else:
            kept = kept.absolute()
            kept.mkdir(parents=True, exist_ok=True)
            exits.callback(shutil.rmtree, kept / "runs", ignore_errors=True)
        yield Site(kept, exits, runs)


def _copy(name: str, project: Path) -> None:
    source = CHECKOUT / "examples" / (name if name in EXAMPLES else "hello")
    left_out = {"dist", ".lockbuild", "lockbuild.lock"}
    shutil.copytree(source, project, ignore=lambda _, names: left_out.intersection(names), dirs_exist_ok=True)
    if name in EXAMPLES:
        return
    manifest = tomlkit.parse((project / "lockbuild.toml").read_text())
    shipped = CHECKOUT / "toolchains" / f"{manifest['project']['toolchain']}.toml"
    toolchain = tomlkit.parse(shipped.read_text())
    del toolchain["derive"]
    if name == "large":
        toolchain["base"]["debian"]["packages"].extend(MORE_PACKAGES)
    if name in ("tools", "changed"):
        for tool in MORE_TOOLS:
            older = "<1.9" if name == "changed" and tool == "meson" else ""
            toolchain["tools"][tool] = {"from": "pypi", "requirement": tool + older}
    (project / "toolchain.toml").write_text(tomlkit.dumps(toolchain))
    manifest["project"]["toolchain"] = "./toolchain.toml"
    (project / "lockbuild.toml").write_text(tomlkit.dumps(manifest))
