"""Commits as sources of a project and as tools, from manifest to build, over a real git server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import python_path
from tests.support.git_server import GitServer, Repository, run_git, serving_git
from tests.support.http_server import Server, serving
from tests.support.tiny import TinyWorld

MANIFEST = """
[sources.lib]
from = "git"
url = "{url}"
rev = "{rev}"
{more}
"""


class GitWorld:
    """The tiny world with a source from a repository, ``library``, which has the submodule ``sub``."""

    def __init__(self, world: TinyWorld, server: GitServer, directory: Path) -> None:
        self.world = world
        self.server = server
        self.directory = directory
        self.inner = server.repository("inner")
        self.library = server.repository("library")
        self.first = self.library.commit(
            {"f": "one\n", ".gitattributes": "* text eol=crlf\n", "run": "#!/bin/sh\n"}, executable=("run",)
        )
        self.library.tag("v1", self.first, annotated=True)

    def ask(self, rev: str = "v1", more: str = "", *, url: str | None = None) -> None:
        """Let the manifest ask for it."""
        path = self.world.project / "lockbuild.toml"
        text = path.read_text().partition("\n[sources.lib]")[0]
        path.write_text(text + MANIFEST.format(url=url or f"{self.server.url}/library", rev=rev, more=more))

    @property
    def lock(self) -> str:
        return (self.world.project / "lockbuild.lock").read_text()

    @property
    def source(self) -> dict[str, Any]:
        """The source of the repository itself in the lock."""
        sources = tomllib.loads(self.lock)["sources"]
        (found,) = (each for each in sources if "library" in each.get("url", "") and "at" not in each)
        return dict(found)

    def tree(self, store: Path | None = None) -> Path:
        """Where the source's tree stands."""
        store = store or self.world.store
        trees = self.world.run("sync", "--json", store=store).value["trees"]
        return store / "trees" / trees["any:sources.lib"].replace(":", "/")


@pytest.fixture
def git(forked: TinyWorld, tmp_path: Path) -> Iterator[GitWorld]:
    (forked.project / "lockbuild.lock").unlink()
    forked.config = Path(shutil.copy(forked.config, tmp_path / "config.toml"))
    with serving_git(tmp_path / "served") as server:
        made = GitWorld(forked, server, tmp_path)
        forked.edit("lockbuild.toml", "cat $WORDS $SOURCE/main.txt", "cat /build/sources/lib/f")
        yield made


@pytest.mark.slow
def test_from_manifest_to_build(git: GitWorld, tmp_path: Path) -> None:
    git.ask()
    git.world.run("lock")
    assert git.source["commit"] == git.first
    assert "sha256" not in git.source
    assert git.server.sent() == []  # the references said it all
    git.world.run("build")
    assert (git.world.project / "dist/out.txt").read_text() == "one\n"
    git.world.run("lock", "--materialise")
    text = git.lock
    git.world.run("lock", "--materialise", store=tmp_path / "other store")
    assert git.lock == text
    assert str(tmp_path) not in text


@pytest.mark.slow
def test_a_tag_that_moves(git: GitWorld, tmp_path: Path) -> None:
    git.ask()
    git.world.run("lock")
    second = git.library.commit({"f": "two\n"})
    git.library.tag("v1", second)
    assert "moved" not in git.world.run("lock").err
    assert git.first in git.lock
    git.world.run("build", store=tmp_path / "fresh")
    assert (git.world.project / "dist/out.txt").read_text() == "one\n"
    said = git.world.run("lock", "--upgrade", "lib").err
    assert f"the tag v1 moved from {git.first} to {second}" in said
    assert second in git.lock
    assert "moved" not in git.world.run("lock", "--upgrade", "lib").err


def test_a_commit_that_the_server_forgot(git: GitWorld, tmp_path: Path) -> None:
    git.ask()
    git.world.run("lock")
    git.library.git("update-ref", "-d", "refs/heads/main")
    second = git.library.commit({"f": "two\n"})
    git.library.tag("v1", second)
    git.library.git("reflog", "expire", "--all", "--expire=now")
    git.library.git("gc", "-q", "--prune=now")
    failed = git.world.run("sync", store=tmp_path / "fresh", status=4).err
    assert git.first in failed
    assert f"when it was locked it was the tag v1, and it is {second} now" in failed


def test_offline(git: GitWorld, tmp_path: Path) -> None:
    git.ask(more="submodules = true")
    git.world.run("lock")
    git.world.run("sync")
    asked = len(git.server.requests)
    git.world.run("--offline", "lock")
    (git.world.project / "lockbuild.lock").rename(tmp_path / "lock")
    begun = time.monotonic()
    failed = git.world.run("--offline", "lock", status=4)
    assert time.monotonic() - begun < 5
    (tmp_path / "lock").rename(git.world.project / "lockbuild.lock")
    failed = git.world.run("--offline", "sync", store=tmp_path / "fresh", status=4)
    assert f"{git.server.url}/library: commit {git.first}" in failed.err
    assert len(git.server.requests) == asked


def test_a_mirror_by_digest_has_it_as_a_file(git: GitWorld, tmp_path: Path) -> None:
    git.ask()
    git.world.run("lock", "--materialise")
    digest = git.source["sha256"].removeprefix("sha256:")
    blob = (git.world.store / "blobs/sha256" / digest).read_bytes()
    server: Server
    with serving() as server:
        server.add(f"/{digest}", blob)
        config = git.world.config
        config.write_text(f'{config.read_text()}[[mirrors]]\nby-digest = "{server.url}/{{sha256}}"\n')
        before = len(git.server.requests)
        git.world.run("sync", store=tmp_path / "fresh")
        assert len(git.server.requests) == before


@pytest.mark.slow
def test_submodules_and_descriptions(git: GitWorld, tmp_path: Path) -> None:
    inner = git.inner.commit({"i": "inner\n"})
    top = git.library.commit({"f": "top\n"}, submodules={"deps/inner": ("../inner", inner)})
    git.ask("main", "submodules = true\ndescribe = true")
    git.world.run("lock")
    assert 'at = "deps/inner"' in git.lock
    assert f'describe = "v1-1-g{top}"' in git.lock
    tree = git.tree()
    assert (tree / "deps/inner/i").read_text() == "inner\n"
    assert (tree / "f").read_text() == "top\n"
    safe = ("-c", f"safe.directory={tree}")
    assert run_git(*safe, "describe", "--tags", "--always", "--dirty", cwd=tree) == f"v1-1-g{top[:7]}"
    assert run_git(*safe, "rev-parse", "HEAD", cwd=tree) == top
    assert git.tree(tmp_path / "other").name == tree.name


def test_a_part_and_the_whole_of_one_commit(git: GitWorld) -> None:
    git.ask(more='exclude = ["run"]')
    path = git.world.project / "lockbuild.toml"
    path.write_text(
        f'{path.read_text()}\n[sources.whole]\nfrom = "git"\nurl = "{git.server.url}/library"\nrev = "v1"\n'
    )
    git.world.run("lock", "--materialise")
    assert not (git.tree() / "run").exists()
    trees = git.world.run("sync", "--json").value["trees"]
    whole = git.world.store / "trees" / trees["any:sources.whole"].replace(":", "/")
    assert (whole / "run").read_text() == "#!/bin/sh\n"
    text = git.lock
    git.world.run("lock")
    assert git.lock == text


def test_a_tool(git: GitWorld) -> None:
    git.world.edit("toolchain.toml", "[derive.words]", f'[tools.lib]\nfrom = "git"\nurl = "{git.server.url}/library"\n'
                   'rev = "v1"\nexports = { LIB = "$OUT" }\n\n[derive.words]')  # fmt: skip
    git.world.edit("lockbuild.toml", "cat /build/sources/lib/f", "test -x $LIB/run && cat $LIB/f")
    git.world.run("lock")
    git.world.run("build")
    assert (git.world.project / "dist/out.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% {0}", "--upload-pack=touch {0}", "file://{0}", "ssh://-oProxyCommand=touch/{0}"],
)
def test_hostile_submodules(git: GitWorld, tmp_path: Path, url: str) -> None:
    git.library.commit({"f": "x"}, submodules={"sub": (url.format(tmp_path / "touched"), git.first)})
    git.ask("main", "submodules = true")
    failed = git.world.run("lock", status=None)
    assert failed.status in (2, 4, 5)
    assert "sub" in failed.err
    assert not (tmp_path / "touched").exists()


def test_a_server_with_credentials(git: GitWorld, tmp_path: Path) -> None:
    git.server.credentials = ("ann", "s3cret")
    git.ask()
    failed = git.world.run("lock", environ={"HOME": str(tmp_path / "nobody")}, status=4)
    assert "netrc" in failed.err
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login ann password s3cret\n")
    (home / ".netrc").chmod(0o600)
    environ = {"HOME": str(home)}
    git.world.run("lock", environ=environ)
    git.world.run("sync", environ=environ)
    assert "s3cret" not in git.lock


def test_a_repository_behind_ssh(git: GitWorld, tmp_path: Path) -> None:
    """What stands in for ssh is a program of that name, which runs what is asked for on this machine."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/said\nfor last; do :; done\nexec sh -c "$last"\n'
    )
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "GIT_SSH_COMMAND": "false"}
    url = f"ssh://git@git.test:2222{git.library.path}"
    git.ask(url=url)
    git.world.run("lock", environ=environ)
    git.world.run("build", environ=environ)
    assert (git.world.project / "dist/out.txt").read_text() == "one\n"
    assert f'url = "{url}"' in git.lock
    said = (tmp_path / "said").read_text().splitlines()
    assert said
    for line in said:
        assert "-oBatchMode=yes" in line  # a password would be asked for on a terminal that nobody watches
        assert f"-p 2222 git@git.test git-upload-pack '{git.library.path}'" in line
    program.write_text("#!/bin/sh\necho 'Host key verification failed.' >&2\nexit 255\n")
    failed = git.world.run("lock", "--upgrade", environ=environ, status=4).err
    assert "Host key verification failed" in failed
    assert "known_hosts" in failed
    assert url.replace("git@", "") in failed


def test_two_that_lock_at_once(git: GitWorld) -> None:
    inner = git.inner.commit({"i": "inner\n"})
    git.library.commit({"f": "top\n"}, submodules={"deps/inner": ("../inner", inner)})
    git.ask("main", "submodules = true\ndescribe = true")
    arguments = [
        *(sys.executable, "-m", "lockbuild", "--project", str(git.world.project)),
        *("--store", str(git.world.store), "lock", "--dry-run", "--json"),
    ]
    environ = {**os.environ, **python_path(), **git.world.environ}
    running = [
        subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    printed = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], printed
    assert len({out for out, _ in printed}) == 1


def test_files_of_lfs_are_refused(git: GitWorld) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "ab" * 32 + "\nsize 1\n"
    git.library.commit({".gitattributes": "*.bin filter=lfs\n", "big.bin": pointer})
    git.ask("main")
    git.world.run("lock")
    failed = git.world.run("sync", status=4)
    assert "git LFS keeps big.bin elsewhere" in failed.err
    assert 'get these files by from = "archive", and leave them out here (exclude)' in failed.err
    git.ask("main", 'lfs = "fetch"')
    failed = git.world.run("lock", status=2)
    assert "sources.lib.lfs: files of git LFS cannot be fetched" in failed.err
    assert 'from = "archive"' in failed.err
    git.ask("main", 'exclude = ["big.bin"]')
    git.world.run("lock")
    assert not (git.tree() / "big.bin").exists()


def test_the_repository(git: GitWorld) -> None:
    assert isinstance(git.library, Repository)
    git.ask(url=f"{git.server.url}/nothing")
    failed = git.world.run("lock", status=4)
    assert f"{git.server.url}/nothing" in failed.err
    assert "there is no such repository" in failed.err
    git.ask("v2")
    failed = git.world.run("lock", status=2)
    assert "there is no tag or branch 'v2'" in failed.err
    assert "there is v1" in failed.err
