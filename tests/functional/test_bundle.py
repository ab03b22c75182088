"""Bundles from one site to another: what was locked there is built here, to the same bytes, without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Result, lockbuild, python_path
from tests.support.disks import small_disk
from tests.support.engine import PrivateEngine
from tests.support.git_server import new_repository
from tests.support.podman import podman_storage
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

KB, MB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyWorld]:
    """One whose lock is materialised and has recorded outputs. Not to be changed."""
    with tiny_world(tmp_path_factory.mktemp("maker")) as made:
        made.run("lock", "--materialise")
        made.run("reproduce", "--record")
        yield made


@pytest.fixture(scope="module")
def bundle(world: TinyWorld) -> Path:
    file = world.directory / "tiny.bundle"
    world.run("bundle", "create", "-o", file)
    return file


@dataclass
class Site:
    """Somewhere else: a project that was copied there, an empty store, no configuration, no network."""

    directory: Path
    project: Path

    @property
    def store(self) -> Path:
        return self.directory / "their store"

    def run(
        self, *arguments: str | Path, status: int = 0, environ: Mapping[str, str] | None = None
    ) -> Result:
        nowhere = {"LOCKBUILD_CONFIG": str(self.directory / "none.toml"), "HOME": str(self.directory)}
        common = ("--project", self.project, "--store", self.store, "--backend", "bubblewrap", "--offline")
        return lockbuild(*common, *arguments, status=status, environ={**nowhere, **(environ or {})})

    def load(self, *files: str | Path, status: int = 0) -> Any:
        return self.run("bundle", "load", *files, "--json", status=status).value


@pytest.fixture
def site(world: TinyWorld, tmp_path: Path) -> Site:
    return site_for(world, tmp_path / "site")


def site_for(world: TinyWorld, directory: Path) -> Site:
    directory.mkdir()
    (directory / "none.toml").write_text("")
    project = directory / "elsewhere"
    shutil.copytree(
        world.project, project, symlinks=True, ignore=shutil.ignore_patterns("dist", ".lockbuild")
    )
    return Site(directory, project)


def test_the_other_site_reproduces(bundle: Path, site: Site) -> None:
    site.run("sync", status=4)
    loaded = site.load(bundle)
    assert loaded["loaded"]["trees"] == [f"{PLATFORM}:base", f"{PLATFORM}:derive.words"]
    assert loaded["project_missing"] == []
    assert site.run("sync", "--json").value["made"] == []
    assert "reproduced, as the lock records" in site.run("reproduce", "--check-hash").out
    site.run("store", "gc")
    site.run("reproduce", "--check-hash")
    site.run("store", "verify")


@pytest.mark.skipif(os.getuid() != 0, reason="only root leaves the network")
def test_nothing_is_asked_of_a_network(bundle: Path, site: Site) -> None:
    """A network name space without an interface, no HOME, another umask; the bundle comes through a pipe."""
    script = (
        'set -e; umask 077; l() { "$P" -m lockbuild --store "$S" --backend bubblewrap "$@"; }\n'
        'l bundle verify "$B"; cat "$B" | l bundle load -; l sync; l reproduce --check-hash\n'
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        cwd=site.project,
        env={
            "PATH": os.environ["PATH"],
            "P": sys.executable,
            "S": str(site.store),
            "B": str(bundle),
            **python_path(),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reproduced, as the lock records" in done.stdout


@pytest.mark.parametrize(
    "options", [(), ("--with", "both"), ("--image",), ("--compression", "none"), ("--split", "300K")], ids=str
)
def test_the_same_lock_gives_the_same_bytes(
    world: TinyWorld, site: Site, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """From another store (which got everything out of a bundle), path, hash seed and umask."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    world.run("bundle", "create", "-o", tmp_path / "one/b", *options)
    world.run("bundle", "create", "-o", tmp_path / "all", "--with", "both")
    site.load(tmp_path / "all")
    before = os.umask(0o077)
    try:
        site.run(
            "bundle", "create", "-o", tmp_path / "other/b", *options,
            environ={"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
        )  # fmt: skip
    finally:
        os.umask(before)
    one, other = sorted((tmp_path / "one").iterdir()), sorted((tmp_path / "other").iterdir())
    assert [file.name for file in one] == [file.name for file in other]
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in other]
    assert len(one) == (4 if "--split" in options else 1)


def test_sources_alone(world: TinyWorld, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "sources"
    created = world.run("bundle", "create", "-o", file, "--with", "sources", "--json").value
    assert [tree["names"] for tree in created["contents"]["trees"]] == [[f"{PLATFORM}:derive.words"]]
    assert created["contents"]["images"] == []
    loaded = site.load(file)
    assert [purl.partition("@")[0] for purl in loaded["loaded"]["sources"]] == [
        "pkg:deb/debian/busybox",
        "pkg:deb/debian/greeting",
    ]
    assert site.run("sync", "--json").value["made"] == ["base"]
    site.run("reproduce", "--check-hash")


def test_a_lock_without_digests(tmp_path: Path) -> None:
    """What it does not record is made on the other site, of what it does."""
    with tiny_world(tmp_path / "world") as world:
        world.run("lock")
        world.run("bundle", "create", "-o", tmp_path / "b")
        refused = world.run("bundle", "create", "-o", tmp_path / "i", "--image", status=2)
        assert "the lock does not record the image of every platform" in refused.err
        site = site_for(world, tmp_path / "site")
        assert site.load(tmp_path / "b")["loaded"]["trees"] == []
        assert site.run("sync", "--json").value["made"] == ["base", "derive.words"]
        site.run("build")


def test_signed_indexes(world: TinyWorld, site: Site, tmp_path: Path) -> None:
    world.run("bundle", "create", "-o", tmp_path / "b", "--signatures")
    assert "InRelease, forky of " in site.run("bundle", "inspect", tmp_path / "b").out
    site.load(tmp_path / "b")
    message = site.run("bundle", "create", "-o", tmp_path / "c", "--signatures")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "b").read_bytes(), message
    shutil.rmtree(site.store)
    world.run("bundle", "create", "-o", tmp_path / "d")
    site.load(tmp_path / "d")
    refused = site.run("bundle", "create", "-o", tmp_path / "e", "--signatures", status=4)
    assert "the store does not have the signed index of forky" in refused.err


# What has changed since


@pytest.fixture
def grown(world: TinyWorld, tmp_path: Path) -> tuple[TinyWorld, Path]:
    """The project with a tool more, and the lock that it had before."""
    old = tmp_path / "old.lock"
    shutil.copy(world.project / "lockbuild.lock", old)
    world = world.fork(tmp_path, store=True)
    world.edit(
        "toolchain.toml",
        "[derive.words]",
        '[derive.more]\nsteps = ["mkdir -p $OUT; echo more > $OUT/more"]\n\n[derive.words]',
    )
    world.run("lock", "--materialise")
    return world, old


def test_a_bundle_since_a_lock_holds_what_differs(
    grown: tuple[TinyWorld, Path], bundle: Path, tmp_path: Path
) -> None:
    world, old = grown
    world.run("bundle", "create", "-o", tmp_path / "since-lock", "--since", old)
    world.run("bundle", "create", "-o", tmp_path / "since-bundle", "--since", bundle)
    assert (tmp_path / "since-lock").read_bytes() == (tmp_path / "since-bundle").read_bytes()
    listed = subprocess.run(
        ["tar", "-tf", tmp_path / "since-lock"], capture_output=True, text=True, check=True
    )
    # The manifest, the contents, the lock, and one layer.
    assert (
        len([name for name in listed.stdout.split() if name.startswith("blobs/sha256/") and name[-1] != "/"])
        == 4
    )
    site = site_for(world, tmp_path / "site")
    lacking = site.run("bundle", "load", tmp_path / "since-lock", status=4)
    assert f"  {PLATFORM}:base\n  {PLATFORM}:derive.words\n" in lacking.out
    assert "next: load the bundle of that lock" in lacking.out
    assert site.load(bundle)["project_missing"] == []
    assert site.load(tmp_path / "since-lock")["missing"] == []
    assert site.run("sync", "--json").value["made"] == []


def test_a_bundle_since_the_same_lock_holds_nothing(world: TinyWorld, tmp_path: Path) -> None:
    created = world.run(
        "bundle", "create", "-o", tmp_path / "b", "--since", world.project / "lockbuild.lock", "--json"
    ).value
    assert created["size"] < 20_000
    assert all("layer" not in tree for tree in created["contents"]["trees"])
    refused = world.run(
        "bundle", "create", "-o", tmp_path / "c", "--since", tmp_path / "b", "--image", status=2
    )
    assert "--image needs every layer" in refused.err


def test_a_bundle_of_another_lock(grown: tuple[TinyWorld, Path], bundle: Path, tmp_path: Path) -> None:
    """What the project's lock needs beside is named."""
    world, _ = grown
    world.archive.add(
        "greeting", "2.0", contents={"usr/share/greeting": "hello\n", "usr/share/more": "more\n"}
    )
    world.publish()
    world.run("lock", "--upgrade", "base", "--materialise")
    site = site_for(world, tmp_path / "site")
    loaded = site.run("bundle", "load", bundle, status=4)
    assert (
        f"the store lacks of what the project's lock needs:\n  {PLATFORM}:base\nnext: make the bundle"
        in loaded.out
    )
    assert site.load(bundle, status=4)["project_missing"] == [f"{PLATFORM}:base"]


# Locking where there is no network


def test_locking_on_the_other_site(tmp_path: Path) -> None:
    """The suite, a git repository, and a package that nobody needed until then."""
    served = new_repository(tmp_path / "served" / "code")
    served.commit({"code.txt": "code\n"})
    with tiny_world(tmp_path / "world") as world:
        world.archive.add("extra", contents={"usr/share/extra": "extra\n"})
        world.publish()
        with world.config.open("a") as config:
            config.write(
                f'[[mirrors]]\nprefix = "https://git.example.test/"\nto = ["file://{served.path.parent}/"]\n'
            )
        with (world.project / "lockbuild.toml").open("a") as manifest:
            manifest.write(
                '[sources.code]\nfrom = "git"\nurl = "https://git.example.test/code"\nrev = "main"\n'
            )
        world.run("lock", "--materialise")
        file = tmp_path / "b"
        created = world.run("bundle", "create", "-o", file, "--for", "offline-lock", "--json").value
        names = [document["name"] for document in created["contents"]["documents"]]
        assert "debian/now/dists/forky/InRelease" in names
        assert "git/https://git.example.test/code/refs" in names
        site = site_for(world, tmp_path / "site")
        (site.directory / "none.toml").write_text(
            f'[debian]\nkeyring = "{world.directory / "keyring.gpg"}"\n'
        )
        host = world.server.url.encode()
        lock = (world.project / "lockbuild.lock").read_text()
    assert host not in file.read_bytes()
    assert site.run("lock", status=None).status in (0, 4)  # nothing to resolve, or nothing to do it with
    site.load(file)
    site.run("lock", "--upgrade")
    assert (site.project / "lockbuild.lock").read_text() == lock
    site.run("sync")
    toolchain = site.project / "toolchain.toml"
    toolchain.write_text(toolchain.read_text().replace('"greeting"]', '"greeting", "extra"]'))
    site.run("lock")
    changed = (site.project / "lockbuild.lock").read_text()
    assert "pkg:deb/debian/extra@1.0" in changed
    assert "\n    pool/main/e/extra/extra_1.0_all.deb (" in site.run("sync", status=4).err
    site.run("store", "gc")
    site.run("lock", "--upgrade")
    assert (site.project / "lockbuild.lock").read_text() == changed
    assert "Documents for resolving\n" in site.run("bundle", "inspect", file).out
    site.run("bundle", "verify", file)


# Reading it


def test_it_says_what_it_holds(world: TinyWorld, bundle: Path) -> None:
    text = lockbuild("bundle", "inspect", bundle).out
    assert "toolchain    tiny" in text
    assert "    $ mkdir -p $OUT\n" in text
    unpacked = subprocess.run(
        ["tar", "-xOf", bundle, "INDEX.txt"], capture_output=True, text=True, check=True
    )
    assert unpacked.stdout == text
    assert (
        lockbuild("bundle", "inspect", "--lock", bundle).out == (world.project / "lockbuild.lock").read_text()
    )
    lock = lockbuild("bundle", "inspect", "--lock", "--json", bundle).value
    assert lock == {"lock": (world.project / "lockbuild.lock").read_text()}
    verified = lockbuild("bundle", "verify", bundle)
    assert verified.out == "the bundle is sound: 2 blobs, all named by its lock\n"


def test_a_damaged_one_is_refused_with_a_sentence(bundle: Path, site: Site, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bad = tmp_path / "bad"
    bad.write_bytes(data)
    for verb in ("load", "verify"):
        refused = site.run("bundle", verb, bad, status=5)
        assert refused.err.startswith(f"error: {bad}")
        assert "get it again" in refused.err
    assert not list(site.store.glob("trees/sha256/*"))
    assert not list(site.store.glob("tmp/*"))
    assert site.run("bundle", "verify", site.project / "main.txt", status=2).err.startswith("error: ")
    assert "cannot be opened" in site.run("bundle", "load", tmp_path / "none", status=2).err


def test_usage(world: TinyWorld, tmp_path: Path) -> None:
    for arguments, said in (
        (("--platform", "linux/arm64"), "the lock is not for linux/arm64"),
        (("--since", tmp_path / "none"), "there is no such lock or bundle"),
        (
            ("--since", world.config),
            f"--since {world.config}: is neither a lock nor a bundle that can be read: ",
        ),
        (
            ("-o", tmp_path / "none/b"),
            f"there is no directory {tmp_path / 'none'}\nhint: make the directory (mkdir -p ",
        ),
        (("--split", "1K"), "a part must have at least 65,536 bytes"),
        (("--split", "x"), "'x' is no size"),
        (("--image", "--with", "sources"), "--image needs every layer"),
    ):
        refused = world.run("bundle", "create", "-o", tmp_path / "b", *arguments, status=2)
        assert said in refused.err
    assert "it is a directory; name a file" in world.run("bundle", "create", "-o", tmp_path, status=2).err
    assert list(tmp_path.iterdir()) == []


def test_a_stale_lock_is_not_bundled(world: TinyWorld, tmp_path: Path) -> None:
    forked = world.fork(tmp_path)
    forked.edit("toolchain.toml", '"greeting"]', "]")
    refused = forked.run("bundle", "create", "-o", tmp_path / "b", status=1)
    assert "the lock does not belong to this manifest" in refused.err
    assert not (tmp_path / "b").exists()


# Disks


def test_a_full_disk_leaves_nothing(world: TinyWorld, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 600 * KB) as disk:
        for options in ((), ("--split", "256K")):
            failed = world.run("bundle", "create", "-o", disk / "b", *options, status=4)
            assert "there is room for" in failed.err
            assert list(disk.iterdir()) == []
        (disk / "b").write_bytes(b"an older one")


def test_a_disk_that_fills_meanwhile(world: TinyWorld, tmp_path: Path) -> None:
    """Another process takes the room after it was counted."""
    with small_disk(tmp_path / "disk", 4 * MB, files=6) as disk:
        for number in range(3):
            (disk / f"other-{number}").write_bytes(b"")
        before = sorted(disk.iterdir())
        failed = world.run("bundle", "create", "-o", disk / "b", "--split", "256K", status=4)
        assert "No space left on device; nothing of it is left" in failed.err
        assert sorted(disk.iterdir()) == before


def test_a_store_without_room(bundle: Path, site: Site, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1500 * KB) as disk:
        failed = lockbuild("--store", disk / "store", "bundle", "load", bundle, status=4)
        assert "No space left on device" in failed.err
        assert not list((disk / "store").glob("tmp/*"))
        assert not list((disk / "store").glob("trees/sha256/*"))
        os.system(f"mount -o remount,size={8 * MB} {disk}")
        lockbuild("--store", disk / "store", "bundle", "load", bundle)
        lockbuild("--store", disk / "store", "store", "verify")


# Other programs


@pytest.fixture
def skopeo() -> str:
    return _program("skopeo")


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"this test needs {name}: apt install {name}"
    return found


def test_skopeo_reads_and_copies_it(bundle: Path, skopeo: str, world: TinyWorld, tmp_path: Path) -> None:
    lock = (world.project / "lockbuild.lock").read_text()
    shown = subprocess.run(
        [skopeo, "inspect", "--raw", f"oci-archive:{bundle}:environment"], capture_output=True, check=True
    )
    manifest = json.loads(shown.stdout)
    assert f'image = "{manifest["config"]["digest"]}"' in lock
    subprocess.run(
        [skopeo, "copy", "-q", f"oci-archive:{bundle}:bundle", f"oci:{tmp_path}/copy:bundle"], check=True
    )
    artefact = json.loads(
        subprocess.run(
            [skopeo, "inspect", "--raw", f"oci:{tmp_path}/copy:bundle"], capture_output=True, check=True
        ).stdout
    )
    assert artefact["artifactType"] == "application/vnd.lockbuild.bundle.v1+json"
    (locked,) = [layer for layer in artefact["layers"] if "annotations" in layer]
    assert (tmp_path / "copy/blobs/sha256" / locked["digest"][7:]).read_text() == lock


@pytest.mark.docker
def test_docker_loads_it(world: TinyWorld, engine: PrivateEngine, tmp_path: Path) -> None:
    world.run("bundle", "create", "-o", tmp_path / "b", "--image")
    docker = {**os.environ, **engine.environ}
    done = subprocess.run(
        ["docker", "load", "-i", tmp_path / "b"], env=docker, capture_output=True, text=True, check=True
    )
    name = done.stdout.removeprefix("Loaded image: ").strip()
    identity = subprocess.run(
        ["docker", "image", "inspect", "-f", "{{.Id}}", name],
        env=docker,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'image = "{identity.stdout.strip()}"' in (world.project / "lockbuild.lock").read_text()
    subprocess.run(["docker", "image", "rm", name], env=docker, capture_output=True, check=True)


@pytest.mark.skipif(os.getuid() != 0, reason="podman of the root user keeps its images where it is told to")
def test_podman_loads_it(world: TinyWorld, bundle: Path) -> None:
    _program("podman")
    with podman_storage() as (_, podman):
        done = subprocess.run(
            [*podman, "load", "-q", "-i", bundle], capture_output=True, text=True, check=True
        )
        name = done.stdout.rpartition(": ")[2].strip()
        shown = subprocess.run(
            [*podman, "image", "inspect", "-f", "{{.Id}}", name], capture_output=True, text=True, check=True
        )
        assert f'image = "sha256:{shown.stdout.strip()}"' in (world.project / "lockbuild.lock").read_text()
