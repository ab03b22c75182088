"""A registry as a cache, over TLS with a password: what it spares, and that it can do no harm."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.model.digest import Digest
from tests.support.http_server import serving, slow
from tests.support.processes import left_behind, running
from tests.support.registry import PASSWORD, USER, Registry, registry, skopeo
from tests.support.tiny import TinyWorld, tiny_world


@dataclass
class Cached:
    """A world whose lock is materialised and recorded, and whose cache has all of it."""

    world: TinyWorld
    registry: Registry
    plain: str
    """The configuration without a cache."""

    def configure(self, text: str) -> None:
        """The configuration with ``text`` at its end."""
        self.world.config.write_text(
            f'{self.plain}ca = ["{self.registry.certificate}"]\n{text.replace("HOST", self.registry.host)}'
        )

    def tags(self) -> list[str]:
        return sorted(
            path.rpartition("/")[2]
            for path in self.registry.requests("PUT")
            if "/team/cache/manifests/" in path
        )


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cached]:
    directory = tmp_path_factory.mktemp("cache")
    with (
        tiny_world(directory / "world") as world,
        registry(directory / "registry", tls=True, password=True) as one,
    ):
        world.extra_environ = one.docker_config(directory / "docker")
        cached = Cached(world, one, world.config.read_text())
        cached.configure('[cache]\nread = ["HOST/team/cache"]\nwrite = "HOST/team/cache"\n')
        first = world.run("lock", "--materialise")
        assert "is passed over" not in first.err
        world.run("reproduce", "--record")
        world.run("cache", "push")
        yield cached


@pytest.fixture
def cached(ready: Cached) -> Cached:
    """As at the start, and nobody has asked the mirror for anything."""
    ready.configure('[cache]\nread = ["HOST/team/cache"]\nwrite = "HOST/team/cache"\n')
    ready.world.server.requests.clear()
    return ready


def test_what_was_made_is_found_by_the_next_machine(cached: Cached, tmp_path: Path) -> None:
    synced = cached.world.run("sync", "--json", store=tmp_path / "store")
    assert synced.value["made"] == []
    assert cached.world.server.requests == []
    cached.world.run("reproduce", "--check-hash", "--offline", store=tmp_path / "store")
    kinds = [tag.partition("-")[0] for tag in cached.tags()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"outputs": 1, "source": 2, "tree": 2}


def test_a_lock_without_digests_gets_its_sources(cached: Cached, tmp_path: Path) -> None:
    """A recipe says nothing of the tree that it gives: that one makes oneself."""
    world = cached.world.fork(tmp_path)
    (world.project / "lockbuild.lock").unlink()
    world.run("lock")
    world.server.requests.clear()
    synced = world.run("sync", "--json", store=tmp_path / "store")
    assert synced.value["made"] == ["base", "derive.words"]
    assert not [path for path in world.server.paths() if path.endswith(".deb")]


def test_a_pull_is_enough_to_go_offline(cached: Cached, tmp_path: Path) -> None:
    world, store = cached.world, tmp_path / "store"
    pulled = world.run("cache", "pull", "--sources", "--json", store=store).value
    assert pulled["trees"] == ["base", "derive.words"]
    assert len(pulled["sources"]) == 2
    assert pulled["missing"] == []
    assert world.run("cache", "pull", "--sources", "--json", store=store).value["unchanged"] == {
        "trees": 2,
        "sources": 2,
    }
    assert world.run("sync", "--offline", "--json", store=store).value["made"] == []


def test_the_artefacts_are_the_same_whoever_pushes(cached: Cached, tmp_path: Path) -> None:
    """Another store, another hash seed, another umask: the same manifests."""
    world = cached.world
    made = world.run(
        *("cache", "push", f"{cached.registry.host}/other/place", "--json"),
        environ={"PYTHONHASHSEED": "99"},
    ).value
    assert (len(made["trees"]), len(made["sources"]), len(made["outputs"])) == (2, 2, 1)
    for tag in cached.tags():
        bodies = {
            skopeo(
                "inspect", "--raw", *cached.registry.skopeo, f"docker://{cached.registry.host}/{name}:{tag}"
            ).stdout
            for name in ("team/cache", "other/place")
        }
        assert len(bodies) == 1


def test_the_outputs_are_files_to_others(cached: Cached, tmp_path: Path) -> None:
    """As any client of artefacts reads them: a layer is a file, and its annotation says what it is called."""
    tag = next(tag for tag in cached.tags() if tag.startswith("outputs-"))
    target = tmp_path / "layout"
    skopeo(
        *("copy", *cached.registry.skopeo_copy("src")),
        f"docker://{cached.registry.host}/team/cache:{tag}",
        f"dir:{target}",
    )
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["artifactType"] == "application/vnd.lockbuild.outputs.v1"
    files = {
        layer["annotations"]["org.opencontainers.image.title"]: (
            target / layer["digest"].removeprefix("sha256:")
        ).read_text()
        for layer in manifest["layers"]
    }
    assert files == {"lib/copy.txt": "HELLO\nworld\n", "out.txt": "HELLO\nworld\n"}


def test_oras_reads_what_was_written(cached: Cached, tmp_path: Path) -> None:
    """The Python client of that project; its command-line program does the same."""
    from oras.client import OrasClient

    trusted = str(cached.registry.certificate)
    client = OrasClient(auth_backend="basic", tls_verify=trusted)
    client.auth.set_basic_auth(USER, PASSWORD)
    tag = next(tag for tag in cached.tags() if tag.startswith("outputs-"))
    client.pull(target=f"{cached.registry.host}/team/cache:{tag}", outdir=str(tmp_path / "out"))
    assert (tmp_path / "out/lib/copy.txt").read_text() == "HELLO\nworld\n"
    assert (tmp_path / "out/out.txt").read_text() == "HELLO\nworld\n"


def test_recorded_outputs_come_in_place_of_a_build(cached: Cached, tmp_path: Path) -> None:
    cached.configure('[cache]\nread = ["HOST/team/cache"]\noutputs = true\n')
    world = cached.world
    built = world.run("build", "--json", "-o", tmp_path / "out", store=tmp_path / "store").value["targets"][0]
    assert built["backend"] == "cache"
    assert (tmp_path / "out/out.txt").read_text() == "HELLO\nworld\n"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "out", check=True)


def test_outputs_of_other_inputs_are_built(cached: Cached, tmp_path: Path) -> None:
    cached.configure('[cache]\nread = ["HOST/team/cache"]\noutputs = true\n')
    world = cached.world.fork(tmp_path)
    (world.project / "main.txt").write_text("moon\n")
    built = world.run("build", "--json").value["targets"][0]
    assert built["backend"] == "bubblewrap"
    assert (world.project / "dist/out.txt").read_text() == "HELLO\nmoon\n"


def test_a_build_leaves_its_outputs_to_the_cache_and_checks_never_take_them(
    cached: Cached, tmp_path: Path
) -> None:
    cached.configure('[cache]\nread = ["HOST/team/cache"]\nwrite = "HOST/team/cache"\noutputs = true\n')
    world = cached.world.fork(tmp_path)
    (world.project / "main.txt").write_text("moon\n")
    built = world.run("build", "--json").value["targets"][0]
    assert f"outputs-{built['input'].removeprefix('sha256:')}" in cached.tags()
    world = cached.world
    checked = world.run("reproduce", "--check-hash", "--json")
    assert "[1/2]" in checked.err
    assert checked.value["targets"][0]["same"]


@pytest.fixture
def own(tmp_path: Path, cached: Cached) -> Iterator[Registry]:
    """A registry with a copy of the data of the cached one, to do harm to."""
    shutil.copytree(cached.registry.directory / "data", tmp_path / "registry/data")
    with registry(tmp_path / "registry") as one:
        cached.world.config.write_text(
            f'{cached.plain}[cache]\nread = ["{one.host}/team/cache"]\nwrite = "{one.host}/team/cache"\n'
        )
        yield one


def manifest_of(one: Registry, tag: str) -> Path:
    """The file in which a registry keeps the manifest of a tag of the cache."""
    link = (
        one.directory
        / "data/docker/registry/v2/repositories/team/cache/_manifests/tags"
        / tag
        / "current/link"
    )
    return one.blob_file(link.read_text())


def replace(file: Path, data: bytes) -> None:
    """Change what a registry's file holds, as who owns the registry can."""
    file.chmod(0o644)
    file.write_bytes(data)


def test_wrong_bytes_of_trees_and_sources_only_cost_time(
    cached: Cached, own: Registry, tmp_path: Path
) -> None:
    harmed = 0
    for tag in cached.tags():
        for layer in json.loads(manifest_of(own, tag).read_bytes())["layers"]:
            replace(own.blob_file(layer["digest"]), os.urandom(layer["size"]))
            harmed += 1
    assert harmed >= 5
    result = cached.world.run("sync", "--json", store=tmp_path / "store")
    assert sorted(result.value["made"]) == ["base", "derive.words"]
    assert len(re.findall(r"the cache .* is passed over", result.err)) == 1
    assert [path for path in cached.world.server.paths() if path.endswith(".deb")]
    failed = cached.world.run("cache", "pull", store=tmp_path / "other", status=5)
    assert re.search(
        r"cache:tree-[0-9a-f]{64}: what it has for (base|derive.words) is something else", failed.err
    )
    assert not list((tmp_path / "other/trees/sha256").iterdir())


def test_another_tree_under_a_name_only_costs_time(cached: Cached, own: Registry, tmp_path: Path) -> None:
    """Whole and well-formed, and not what was asked for: each tree in the other's place."""
    trees = [tag for tag in cached.tags() if tag.startswith("tree-")]
    links = [
        own.directory
        / "data/docker/registry/v2/repositories/team/cache/_manifests/tags"
        / tag
        / "current/link"
        for tag in trees
    ]
    texts = [link.read_text() for link in links]
    for link, text in zip(links, reversed(texts), strict=True):
        link.write_text(text)
    result = cached.world.run("sync", "--json", store=tmp_path / "store")
    assert sorted(result.value["made"]) == ["base", "derive.words"]
    assert "unpacks to another tree than it should" in result.err
    assert cached.world.run("cache", "push", "--json").value["trees"] == []
    assert len(cached.world.run("cache", "push", "--replace", "--json").value["trees"]) == 2
    assert len(cached.world.run("cache", "pull", "--json", store=tmp_path / "other").value["trees"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"schemaVersion":2,"config":{},"layers":[]}',
        b"[" * 200_000,
        b" " * (5 << 20),
    ],
)
def test_a_manifest_that_is_none_only_costs_time(cached: Cached, tmp_path: Path, body: bytes) -> None:
    with serving() as server:
        host = server.url.partition("://")[2]
        for tag in cached.tags():
            server.add(f"/v2/team/cache/manifests/{tag}", body, "application/vnd.oci.image.manifest.v1+json")
        cached.world.config.write_text(f'{cached.plain}[cache]\nread = ["{host}/team/cache"]\n')
        result = cached.world.run("sync", "--json", store=tmp_path / "store")
    assert sorted(result.value["made"]) == ["base", "derive.words"]
    assert len(re.findall(r"the cache .* is passed over", result.err)) == 1


@pytest.mark.parametrize("verb", [("cache", "pull"), ("sync",)])
def test_an_interruption_does_not_wait_for_a_cache_that_stalls(
    cached: Cached, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    released = threading.Event()
    with serving() as server:
        host = server.url.partition("://")[2]
        for number, tag in enumerate(tag for tag in cached.tags() if tag.startswith("tree-")):
            data = os.urandom(100_000)
            digest = Digest.of(data)
            manifest = {
                "config": {"mediaType": "application/json", "digest": str(digest), "size": 2},
                "layers": [{"mediaType": "application/x", "digest": str(digest), "size": len(data)}],
                "schemaVersion": 2 + number,
            }
            server.add(f"/v2/team/cache/manifests/{tag}", json.dumps(manifest).encode())
            path = f"/v2/team/cache/blobs/{digest}"
            server.add(path, data)
            server.script[path] = [slow(0, released)]
        cached.world.config.write_text(f'{cached.plain}[cache]\nread = ["{host}/team/cache"]\n')
        world = cached.world.fork(tmp_path, store=False)
        world.shared_store = tmp_path / "store"
        with running(world, *verb) as command:
            limit = time.monotonic() + 60
            while not any("/blobs/" in path for path in server.paths()):
                assert time.monotonic() < limit, command.said
                time.sleep(0.02)
            began = time.monotonic()
            command.signal(signal.SIGINT)
            assert command.wait() == 130
            assert time.monotonic() - began < 10
        released.set()
    assert left_behind(tmp_path / "store") == []


def test_a_cache_that_does_not_answer_is_told_of_once(cached: Cached, tmp_path: Path) -> None:
    cached.world.config.write_text(
        f'{cached.plain}[cache]\nread = ["127.0.0.1:9/a/b"]\nwrite = "127.0.0.1:9/a/b"\n'
    )
    result = cached.world.run("sync", "--json", store=tmp_path / "store")
    assert len(re.findall(r"the cache 127.0.0.1:9/a/b is passed over", result.err)) == 1
    assert sorted(result.value["made"]) == ["base", "derive.words"]
    refused = cached.world.run("cache", "pull", store=tmp_path / "other", status=4)
    assert "127.0.0.1:9" in refused.err


def test_without_credentials_nothing_is_written_and_nothing_fails(cached: Cached, tmp_path: Path) -> None:
    before = cached.registry.requests("PUT")
    nobody = {"DOCKER_CONFIG": str(tmp_path / "nobody")}
    cached.configure('[cache]\nwrite = "HOST/team/cache"\n')
    result = cached.world.run("sync", store=tmp_path / "store", environ=nobody)
    assert "there are no credentials for its registry" in result.err
    assert cached.registry.requests("PUT") == before
    refused = cached.world.run("cache", "push", environ=nobody, status=4)
    assert "docker login" in refused.err


def test_offline_the_cache_is_not_asked(cached: Cached, tmp_path: Path) -> None:
    before = len(cached.registry.log)
    result = cached.world.run("sync", "--offline", store=tmp_path / "store", status=4)
    assert "the cache" not in result.err
    assert len(cached.registry.log) == before
    assert cached.world.run("cache", "pull", "--offline", store=tmp_path / "store", status=4)
    cached.configure('[cache]\nread = ["HOST/team/cache"]\noutputs = true\n')
    cached.world.run("sync", store=tmp_path / "other")
    before = len(cached.registry.log)
    built = cached.world.run("build", "--offline", "-o", tmp_path / "out", store=tmp_path / "other")
    assert "the cache" not in built.err
    assert len(cached.registry.log) == before


def test_no_secret_stands_in_what_is_pushed(cached: Cached) -> None:
    for file in (cached.registry.directory / "data").rglob("data"):
        data = file.read_bytes()
        assert b"correct horse" not in data
        assert str(cached.world.directory).encode() not in data


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("push", "team/cache"), "names no registry"),
        (("pull", "127.0.0.1:9/team/cache:tag"), "it has no tag and no digest"),
        (("pull", "127.0.0.1:9/Team"), "is not a repository's name"),
        (("push",), "no cache is named"),
    ],
)
def test_a_cache_that_is_named_wrongly(cached: Cached, arguments: tuple[str, ...], text: str) -> None:
    cached.world.config.write_text(cached.plain)
    assert text in cached.world.run("cache", *arguments, status=2).err
