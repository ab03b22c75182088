"""SDKs and ports from the manifest to the build, in a small world: its release is made of shell scripts."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.model.lock import Lock, LockedTree
from lockbuild.model.lockfile import loads
from tests.support.emscripten import World, archive_url, new_world, port, remote_port, tar_xz, zipped
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

SUFFIX, COLUMN = {"amd64": ("", "linux"), "arm64": ("-arm64", "linux_arm64")}[PLATFORM.architecture]
TOOLCHAIN = f"""\
schema = 1
name = "tiny"
platforms = ["{PLATFORM}"]

[base.debian]
suite = "forky"
packages = ["busybox"]

[tools.sdk]
from = "emsdk"
version = ">=4.0.10"
node = false

[tools.png]
from = "port"
port = "libpng"

[tools.jpeg]
from = "port"

[tools.webgpu]
from = "port"
port = "remote"
"""
PROJECT = """\
[project]
name = "tiny"
toolchain = "./toolchain.toml"

[targets.tiny]
steps = [
    "emcc > out.txt",
    "cat $EM_PORTS/*/.emscripten_url | sort >> out.txt",
    "cat $EM_PORTS/libpng/*/png.h $EM_PORTS/zlib/*/zlib.h >> out.txt",
    "EMSDK_PYTHON=echo emsdk activate 4.0.19 >> out.txt",
    "! touch $EMSDK/x $EM_PORTS/zlib/x",
]
outputs = ["out.txt"]
"""
OUT = """\
the compiler of 4.0.19
https://archive.test/jpeg-1.0.zip
https://archive.test/libpng-1.0.zip
https://archive.test/v1/remote-v1.zip
https://archive.test/zlib-1.3.zip
png
zlib 1.3
/opt/emsdk/emsdk.py install 4.0.19
"""


@dataclass
class Place:
    """A tiny world in which Emscripten is published, too."""

    tiny: TinyWorld
    world: World

    def publish(self, version: str, ports: dict[str, str], compiler: str = "the compiler of") -> None:
        """A release, its archive on the server."""
        files = {
            "install/emscripten/emcc": f"#!/bin/sh\necho {compiler} {version}\n",
            "install/bin/clang": "#!/bin/sh\n",
        }
        archive = tar_xz(self.tiny.directory / "a.tar.xz", files)
        self.world.release(
            version, columns={COLUMN: hashlib.sha256(archive.read_bytes()).hexdigest()}, ports=ports
        )
        self.tiny.server.files[archive_url("/builds", version, SUFFIX)] = archive.read_bytes()

    def archive(self, path: str, files: dict[str, str]) -> str:
        """Serve a port's archive; its SHA-512."""
        self.tiny.server.files[path] = zipped(files)
        return hashlib.sha512(self.tiny.server.files[path]).hexdigest()

    @property
    def lock(self) -> Lock:
        return loads((self.tiny.project / "lockbuild.lock").read_text(), "lockbuild.lock")

    def tree(self, name: str) -> LockedTree:
        return self.lock.tree(name, PLATFORM)

    def out(self) -> str:
        self.tiny.run("build")
        return (self.tiny.project / "dist/out.txt").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with tiny_world(tmp_path) as tiny:
        found = Place(tiny, new_world(tmp_path))
        found.world.base = f"{tiny.server.url}/builds"
        mirror = f'[[mirrors]]\nprefix = "https://archive.test"\nto = ["{tiny.server.url}"]\n'
        tiny.config.write_text(tiny.config.read_text() + found.world.toml() + mirror)
        (tiny.project / "toolchain.toml").write_text(TOOLCHAIN)
        (tiny.project / "lockbuild.toml").write_text(PROJECT)
        png = found.archive("/libpng-1.0.zip", {"libpng-1.0/png.h": "png\n"})
        zlib = found.archive("/zlib-1.3.zip", {"zlib-1.3/zlib.h": "zlib 1.3\n"})
        found.archive("/zlib-1.2.zip", {"zlib-1.2/zlib.h": "zlib 1.2\n"})
        jpeg = found.archive("/jpeg-1.0.zip", {"jpeg-1.0/jpeg.h": "jpeg\n"})
        remote = found.archive("/v1/remote-v1.zip", {"remote/remote.port.py": ""})
        ports = {
            "libpng": port("libpng", deps=("zlib",), digest=png),
            "jpeg": port("jpeg", deps=("zlib",), digest=jpeg),
            "zlib": port("zlib", "1.3", digest=zlib),
            "remote": remote_port("remote", digest=remote),
        }
        found.publish("4.0.19", ports)
        yield found


def test_lock_sync_and_build(place: Place) -> None:
    place.tiny.run("lock")
    assert [tree.name for tree in place.lock.trees] == [
        "base",
        "tools.jpeg",
        "tools.jpeg+zlib",
        "tools.png",
        "tools.png+zlib",
        "tools.sdk",
        "tools.webgpu",
    ]
    assert not any(request.path.endswith((".xz", ".zip")) for request in place.tiny.server.requests)
    assert place.out() == OUT
    place.tiny.run("lock", "--check")
    place.tiny.run("lock", "--materialise")
    assert all(tree.digest for tree in place.lock.trees)
    assert all(source.sha256 for source in place.lock.sources)
    assert place.tree("tools.jpeg+zlib").digest == place.tree("tools.png+zlib").digest
    before = (place.tiny.project / "lockbuild.lock").read_bytes()
    place.tiny.run("lock")
    assert (place.tiny.project / "lockbuild.lock").read_bytes() == before


def test_a_store_from_nothing_needs_only_the_lock(place: Place, tmp_path: Path) -> None:
    place.tiny.run("lock", "--materialise")
    shutil.rmtree(place.world.emscripten.path)  # whatever the port files say is in the lock
    place.tiny.run("build", store=tmp_path / "other")
    assert (place.tiny.project / "dist/out.txt").read_text() == OUT


def test_a_tool_of_its_own_decides_the_version_of_what_others_need(place: Place) -> None:
    place.tiny.edit(
        "toolchain.toml", "[tools.jpeg]", '[tools.zlib]\nfrom = "port"\nversion = "1.2"\n\n[tools.jpeg]'
    )
    said = place.tiny.run("lock").err
    assert "nobody publishes a digest of https://archive.test/zlib-1.2.zip" in said
    assert place.tree("tools.zlib").pins["version"] == "1.2"
    # It stands where this Emscripten looks for the version that it pins, under the marker of that.
    assert place.out() == OUT.replace("zlib 1.3\n", "zlib 1.2\n")


def test_an_upgrade_takes_the_ports_along(place: Place) -> None:
    place.tiny.run("lock")
    png = place.archive("/libpng-1.1.zip", {"libpng-1.1/png.h": "png of 5\n"})
    place.publish("5.0.0", {"libpng": port("libpng", "1.1", digest=png)})
    place.tiny.run("lock")
    assert place.tree("tools.sdk").pins["emscripten"] == "4.0.19"
    said = place.tiny.run("lock", "--upgrade", "sdk").out
    assert place.tree("tools.sdk").pins["emscripten"] == "5.0.0"
    assert {place.tree(f"tools.{name}").pins["emscripten"] for name in ("png", "jpeg", "webgpu")} == {"5.0.0"}
    assert place.tree("tools.png").pins["version"] == "1.1"
    assert "tools.png+zlib" not in {tree.name for tree in place.lock.trees}  # the new one needs none
    assert "1.1" in said


def test_a_moved_archive_is_noticed(place: Place) -> None:
    place.tiny.run("lock")
    place.tiny.server.files[archive_url("/builds", "4.0.19", SUFFIX)] += b"x"
    place.tiny.server.files["/zlib-1.3.zip"] = zipped({"zlib-1.3/zlib.h": "evil\n"})
    said = place.tiny.run("sync", status=5).err
    assert "pkg:generic/emscripten@4.0.19" in said
    assert "pkg:generic/zlib@1.3" in said
    assert "sha512:" in said


def test_offline_names_what_is_missing(place: Place) -> None:
    place.tiny.run("lock")
    said = place.tiny.run("sync", "--offline", status=4).err
    assert f"  would come from {place.tiny.server.url}:\n" in said
    for file in ("wasm-binaries.tar.xz", "/libpng-1.0.zip", "/zlib-1.3.zip"):
        assert said.count(file) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (">=4.0.10", ">=9", "no release of Emscripten fits '>=9'"),
        (">=4.0.10", "4.0.1", "Emscripten has no release '4.0.1'"),
        (
            'port = "libpng"',
            'port = "libpgn"',
            "Emscripten 4.0.19 has no port 'libpgn'\nhint: did you mean libpng",
        ),
        ("node = false", "", "has no Python to choose wheels for"),
        (
            "[tools.jpeg]\n",
            '[tools.jpeg]\nof = "png"\n',
            "tools.jpeg.of: the tool 'png' is not an Emscripten SDK",
        ),
        ("[tools.jpeg]\n", '[tools.jpeg]\nport = "libpng"\n', "is also the mount of tools.png"),
    ],
)
def test_what_cannot_be(place: Place, old: str, new: str, said: str) -> None:
    place.tiny.edit("toolchain.toml", old, new)
    assert said in place.tiny.run("lock", status=2).err
