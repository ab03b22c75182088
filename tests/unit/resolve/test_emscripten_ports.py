"""Locking ports as an Emscripten pins them, against a small real repository."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockbuild.errors import LockbuildError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PortTool
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.git.repositories import GitRepositories
from lockbuild.transport.http import Http
from tests.support.emscripten import EMSCRIPTEN, HASH, World, new_world, port, remote_port, zipped
from tests.support.http_server import Server, serving

AMD, ARM = Platform.parse("linux/amd64"), Platform.parse("linux/arm64")
PORTS = "/opt/emscripten-ports"


def sdk(version: str, name: str = "sdk") -> dict[str, Resolution]:
    tree = LockedTree(
        name=f"tools.{name}", platform=AMD, unpack="emsdk", mount="/opt/emsdk", pins={"emscripten": version}
    )
    return {f"tools.{name}": Resolution((tree,), ())}


def base(*versions: str) -> dict[str, Resolution]:
    sources = tuple(
        Source(
            purl=f"pkg:deb/debian/emscripten@{version}?arch=all&distro=forky",
            path=f"pool/{number}.deb",
            sha256=Digest.of(b""),
            trees=["linux/amd64:base"],
        )
        for number, version in enumerate(versions)
    )
    other = Source(
        purl="pkg:deb/debian/emscripten-doc@9.9.9?arch=all",
        path="pool/doc.deb",
        sha256=Digest.of(b""),
        trees=["linux/amd64:base"],
    )
    return {"base": Resolution((), (*sources, other))}


class Bench:
    def __init__(self, directory: Path, server: Server) -> None:
        self.directory = directory
        self.server = server
        self.world: World = new_world(directory)

    def lock(self, name: str, resolved: Mapping[str, Resolution] | None = None, **request: Any) -> Resolution:
        # What port files name as https://archive.test is on the test's own server.
        mirror = {"prefix": "https://archive.test", "to": [self.server.url]}
        config = self.world.config(mirrors=[mirror], network={"retries": 0, "timeout": 5})
        wanted = PortTool.model_validate({"from": "port", **request})
        with Http(config) as http:
            context = ResolveContext(
                http,
                config,
                Store(self.directory / "store"),
                datetime.now(UTC),
                self.directory,
                open_git=lambda: GitRepositories(self.directory / "git", config),
                resolved=sdk("4.0.19") if resolved is None else resolved,
            )
            return resolve(f"tools.{name}", wanted, (AMD, ARM), context)

    def fails(self, name: str, resolved: Mapping[str, Resolution] | None = None, **request: Any) -> str:
        with pytest.raises(LockbuildError) as caught:
            self.lock(name, resolved, **request)
        return str(caught.value)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as server:
        found = Bench(tmp_path, server)
        found.world.release(
            "4.0.19",
            ports={
                "zlib": port("zlib", "1.3.1"),
                "libpng": port("libpng", "1.6", deps=("zlib",)),
                "freetype": port("freetype", deps=("zlib", "libpng")),
                "sdl": port("sdl", body="def f(s):\n  deps.append('freetype:a=b')\n"),
                "circle": port("circle", deps=("round",)),
                "round": port("round", deps=("circle",)),
                "broken": port("broken", deps=("missing",)),
                "remote": remote_port("remote", "v1"),
                "contrib/glfw3": remote_port("contrib.glfw3"),
                "odd": "def get(ports, settings, shared):\n  ports.fetch_project('other', 'https://archive.test/o.zip')\n",
                "two": port(
                    "two",
                    body="def g(ports):\n  ports.fetch_project('two_data', 'https://archive.test/d.zip',"
                    f" sha512hash='{HASH}')\n",
                ),
                "empty": "def get(ports, settings, shared):\n  return []\n",
                "unsigned": port("unsigned").replace(f"HASH = '{HASH}'", "HASH = None"),
            },
        )
        yield found


def test_a_port_is_the_same_for_all_platforms(bench: Bench) -> None:
    locked = bench.lock("zlib")
    (tree,), (source,) = locked.trees, locked.sources
    assert (tree.id, tree.unpack, tree.mount) == ("any:tools.zlib", "port", f"{PORTS}/zlib")
    assert tree.parameters == {"url": "https://archive.test/zlib-1.3.1.zip"}
    assert tree.pins == {"emscripten": "4.0.19", "version": "1.3.1"}
    assert tree.exports == {"EM_PORTS": PORTS}
    assert (source.url, source.sha512, source.sha256) == ("https://archive.test/zlib-1.3.1.zip", HASH, None)
    assert source.purl == "pkg:generic/zlib@1.3.1?download_url=https://archive.test/zlib-1.3.1.zip"
    assert (source.trees, source.trust) == (["any:tools.zlib"], None)
    assert bench.server.requests == []


def test_what_it_may_need_stands_beside_it(bench: Bench) -> None:
    locked = bench.lock("sdl")
    assert {tree.name: tree.mount for tree in locked.trees} == {
        "tools.sdl": f"{PORTS}/sdl",
        "tools.sdl+freetype": f"{PORTS}/freetype",
        "tools.sdl+libpng": f"{PORTS}/libpng",
        "tools.sdl+zlib": f"{PORTS}/zlib",
    }
    assert [tree.exports for tree in locked.trees] == [{"EM_PORTS": PORTS}, {}, {}, {}]
    assert [source.trees for source in locked.sources] == [[tree.id] for tree in locked.trees]
    circle = bench.lock("circle")
    assert [tree.name for tree in circle.trees] == ["tools.circle", "tools.circle+round"]


def test_remote_and_contributed_ports(bench: Bench) -> None:
    remote = bench.lock("webgpu", port="remote")
    assert remote.trees[0].mount == f"{PORTS}/remote"
    assert remote.trees[0].pins["version"] == "v1"
    contributed = bench.lock("glfw", port="contrib.glfw3", exports={"X": "y"})
    assert contributed.trees[0].mount == f"{PORTS}/contrib.glfw3"
    assert contributed.trees[0].exports == {"EM_PORTS": PORTS, "X": "y"}


def test_another_place(bench: Bench) -> None:
    locked = bench.lock("libpng", mount="/opt/ports/libpng")
    assert [tree.mount for tree in locked.trees] == ["/opt/ports/libpng", "/opt/ports/zlib"]
    assert locked.trees[0].exports == {"EM_PORTS": "/opt/ports"}
    said = bench.fails("libpng", mount="/opt/png")
    assert said.startswith("tools.libpng.mount: /opt/png does not end in 'libpng'")
    assert "use /opt/png/libpng" in said


def test_another_version_under_the_name_that_emscripten_expects(bench: Bench) -> None:
    locked = bench.lock("zlib", version="1.2", sha512="ab" * 64)
    assert locked.trees[0].parameters == {
        "url": "https://archive.test/zlib-1.3.1.zip",
        "directory": "zlib-1.2",
        "as": "zlib-1.3.1",
    }
    assert locked.trees[0].pins == {"emscripten": "4.0.19", "version": "1.2"}
    assert (locked.sources[0].url, locked.sources[0].sha512) == (
        "https://archive.test/zlib-1.2.zip",
        "ab" * 64,
    )
    remote = bench.lock("remote", version="v2", sha512="ab" * 64)
    assert remote.trees[0].parameters == {"url": "https://archive.test/v1/remote-v1.zip"}
    assert remote.sources[0].url == "https://archive.test/v2/remote-v2.zip"
    assert "'../../x' cannot be a version" in bench.fails("zlib", version="../../x")


def test_trust_on_first_use_where_nobody_gives_a_digest(bench: Bench) -> None:
    data = zipped({"zlib-1.2/zlib.h": ""})
    bench.server.files["/zlib-1.2.zip"] = data
    locked = bench.lock("zlib", version="1.2")
    source = locked.sources[0]
    assert source.sha256 == Digest(hashlib.sha256(data).hexdigest())
    assert (source.sha512, source.trust, source.size) == (None, "first-use", len(data))
    bench.server.files["/unsigned-1.0.zip"] = data
    assert bench.lock("unsigned").sources[0].trust == "first-use"


def test_whose_pins_count(bench: Bench) -> None:
    bench.world.release("6.0.5", ports={"zlib": port("zlib", "1.3.2")})

    def version(resolved: Mapping[str, Resolution], **request: Any) -> str:
        return bench.lock("zlib", resolved, **request).trees[0].pins["version"]

    assert version(sdk("6.0.5")) == "1.3.2"
    assert version(sdk("4.0.19") | base("6.0.5~dfsg-5")) == "1.3.1"
    assert version(base("6.0.5~dfsg-5")) == "1.3.2"
    assert version(base("1:6.0.5+dfsg-1", "1%3A6.0.5+dfsg-1+b1")) == "1.3.2"
    both = sdk("4.0.19", "old") | sdk("6.0.5", "new")
    assert (version(both, of="old"), version(both, of="new")) == ("1.3.1", "1.3.2")
    assert "tools.zlib.of: tools.sdk is no Emscripten SDK" in bench.fails("zlib", base("6.0.5-1"), of="sdk")
    assert "the environment has none" in bench.fails("zlib", base())
    assert "the environment has none" in bench.fails("zlib", {})
    assert "the environment has several: 4.0.19, 6.0.5" in bench.fails("zlib", base("6.0.5-1", "4.0.19-1"))
    assert f"tools.zlib: {EMSCRIPTEN}: there is no tag '5.0.0'" in bench.fails("zlib", sdk("5.0.0"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zilb", "tools.zilb: Emscripten 4.0.19 has no port 'zilb'\nhint: did you mean zlib?"),
        ("glfw3", "did you mean contrib.glfw3?"),
        ("webgl", "hint: it has broken, circle, contrib.glfw3, empty, freetype, libpng"),
        ("broken", "Emscripten 4.0.19 has no port 'missing'"),
        ("empty", "the port 'empty' has no archive of its own in Emscripten 4.0.19"),
        ("odd", "Emscripten 4.0.19"),
    ],
)
def test_what_is_not_there(bench: Bench, name: str, said: str) -> None:
    bench.server.files["/o.zip"] = zipped({"a": "b"})
    assert said in bench.fails(name)


def test_a_port_that_fetches_two(bench: Bench) -> None:
    locked = bench.lock("two")
    assert [(tree.name, tree.mount) for tree in locked.trees] == [
        ("tools.two", f"{PORTS}/two"),
        ("tools.two+two_data", f"{PORTS}/two_data"),
    ]


def test_remote_ports_need_an_emscripten_that_knows_them(bench: Bench) -> None:
    bench.world.release("4.0.9", ports={"remote": remote_port("remote"), "zlib": port("zlib")})
    said = bench.fails("remote", sdk("4.0.9"))
    assert "the port 'remote' needs Emscripten 4.0.10 or newer, and the environment has 4.0.9" in said
    assert 'version = ">=4.0.10"' in said
    assert "needs Emscripten 4.0.10 or newer" in bench.fails("emdawnwebgpu", sdk("4.0.9"))
    assert "has no port 'emdawnwebgpu'" in bench.fails("emdawnwebgpu")
    assert bench.lock("zlib", sdk("4.0.9")).trees[0].pins["emscripten"] == "4.0.9"
    bench.world.release("2.0.10", ports={"zlib": port("zlib")})
    assert "Emscripten 2.0.10 cannot use ports that it did not fetch itself" in bench.fails(
        "zlib", sdk("2.0.10")
    )


def test_a_port_file_that_is_a_program_is_refused_with_its_line(bench: Bench) -> None:
    trap = bench.directory / "trap"
    text = f"import os\nos.system('touch {trap}')\n" + port("evil").replace(
        "'1.0'", f"os.popen('touch {trap}').read()"
    )
    bench.world.release("5.0.0", ports={"evil": text})
    with pytest.raises(ResolveError) as caught:
        bench.lock("evil", sdk("5.0.0"))
    assert (caught.value.on or "").startswith(EMSCRIPTEN)
    assert (caught.value.on or "").endswith("tools/ports/evil.py:5")
    assert caught.value.hint == 'name its archive yourself: from = "archive"'
    assert not trap.exists()
