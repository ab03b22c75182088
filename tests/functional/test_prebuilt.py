"""A prebuilt library as an asset: named with its version, guarded by a consumer, free of its builder's flags, used.

Both projects are those of examples/prebuilt, with the real Emscripten.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import EXAMPLES, Result
from tests.support.examples import Examples, copy
from tests.support.http_server import Server, serving

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(1800)]

ASSET = "zlib-1.3.1-wasm.tar.gz"
FLAGS = "-mrelaxed-simd -msimd128 -flto -DHOSTILE"
CALLER = {
    **dict.fromkeys(("CFLAGS", "CXXFLAGS", "EMCC_CFLAGS"), FLAGS),
    **dict.fromkeys(("CC", "AR"), "false"),
    "LDFLAGS": "-flto",
    "CMAKE_BUILD_TYPE": "Debug",
    "CMAKE_PREFIX_PATH": "/nonexistent",
}
"""What the shell of whoever builds may have set."""


@dataclass
class Shop:
    """The library's project, locked; ``run`` takes one of both."""

    examples: Examples
    directory: Path

    def run(self, project: str, *arguments: str | Path, **options: object) -> Result:
        return self.examples.run(project, *arguments, project=self.directory / project, **options)


@pytest.fixture(scope="module")
def shop(examples: Examples, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("prebuilt")
    made = Shop(examples, directory)
    for name in ("zlib", "consumer"):
        copy(EXAMPLES / "prebuilt" / name, directory / name, lock=False)
    made.run("zlib", "lock", "--allow-expired")
    made.run("zlib", "build", environ=CALLER)
    yield made
    shutil.rmtree(directory)


def test_nothing_of_the_callers_flags_is_in_the_asset(shop: Shop) -> None:
    """They would show: as features of objects, as bitcode, as paths, in what is exported."""
    asset = shop.directory / "zlib" / "dist" / ASSET
    with tarfile.open(asset) as archive:
        names = archive.getnames()
        files = {
            member.name: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member)) is not None
        }
    top = ASSET.removesuffix(".tar.gz")
    assert {name.partition("/")[0] for name in names} == {top}
    library = files[f"{top}/lib/libz.a"]
    objects = re.findall(rb"\0asm|BC\xc0\xde", library)
    assert set(objects) == {b"\0asm"}
    assert len(objects) > 8
    assert b"target_features" in library
    for feature in (b"relaxed-simd", b"simd128"):
        assert feature not in library
    for name, data in files.items():
        if name.endswith(".cmake"):
            assert not re.search(rb"-m|-flto|HOSTILE|COMPILE_OPTIONS|LINK_OPTIONS", data), name
    assert not any(b"/build/" in data for data in files.values())


def test_another_project_links_it(shop: Shop) -> None:
    asset = (shop.directory / "zlib" / "dist" / ASSET).read_bytes()
    manifest = shop.directory / "consumer" / "lockbuild.toml"
    text = manifest.read_text()
    server: Server
    with serving() as server:
        server.add(f"/files/{ASSET}", asset)
        config = shop.directory / "config.toml"
        config.write_text(
            f'[[mirrors]]\nprefix = "https://sdk.example.test/assets"\nto = ["{server.url}/files"]\n'
        )
        environ = {"LOCKBUILD_CONFIG": str(config), **CALLER}
        digest = hashlib.sha256(asset).hexdigest()
        manifest.write_text(re.sub(r'sha256 = "[0-9a-f]*"', f'sha256 = "{digest}"', text))
        shop.run("consumer", "lock", "--allow-expired", environ=environ)
        assert server.url not in (manifest.parent / "lockbuild.lock").read_text()
        shop.run("consumer", "build", environ=environ)
    program = [shutil.which("node") or "node", "checksum.js", "prebuilt"]
    done = subprocess.run(program, cwd=manifest.parent / "dist", capture_output=True, text=True, check=True)
    assert done.stdout == f"{zlib.crc32(b'prebuilt'):08x} by zlib 1.3.1\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "add_library(z STATIC ${sources})",
            "add_library(z STATIC ${sources})\ntarget_compile_options(z PUBLIC -mrelaxed-simd)",
            "the asset exports -mrelaxed-simd (INTERFACE_COMPILE_OPTIONS), which is not declared",
        ),
        (
            'EXCLUDE REGEX "/gz[a-z]*',
            'EXCLUDE REGEX "/(gz|inftrees)[a-z]*',
            "undefined symbol: inflate_table",
        ),
    ],
    ids=["a flag", "an object"],
)
def test_the_guard_keeps_a_bad_asset_back(shop: Shop, tmp_path: Path, old: str, new: str, told: str) -> None:
    """One that asks its users for a flag that nobody declared, and one that lacks an object."""
    project = copy(shop.directory / "zlib", tmp_path / "zlib")
    listing = project / "CMakeLists.txt"
    text = listing.read_text()
    assert old in text
    listing.write_text(text.replace(old, new))
    failed = shop.examples.run("zlib", "build", project=project, environ=CALLER, status=6)
    assert told in " ".join(failed.err.split())  # CMake breaks its messages into lines
    assert not (project / "dist").exists()
    library = (project / ".lockbuild/failed/zlib/libz.a").read_bytes()
    assert (b"relaxed-simd" in library) == ("relaxed-simd" in new), "a flag that counts can be seen"
