"""An SDK as its publisher lays it out, and ports of our own making, used by a real Emscripten without a network.

The archive is made here from Debian's Emscripten: its compiler, its tools and its JavaScript, laid out as an official
release is. Node.js comes from the package index. The first sync pays for the base root, in a store that
LOCKBUILD_TEST_STORE can name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.model.digest import Digest
from lockbuild.model.lockfile import loads
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from tests.support.command import Result, lockbuild
from tests.support.emscripten import World, archive_url, new_world, port, zipped
from tests.support.http_server import Server, serving

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(1800)]

PLATFORM = Platform.of_machine(os.uname().machine)
SUFFIX, COLUMN = {"amd64": ("", "linux"), "arm64": ("-arm64", "linux_arm64")}[PLATFORM.architecture]
TOOLS = ("clang", "lld", "llvm-ar", "llvm-nm", "llvm-objcopy")
LINKS = {"clang++": "clang", "wasm-ld": "lld", "llvm-ranlib": "llvm-ar"}
BASE = f"""\
schema = 1
name = "sdk"
platforms = ["{PLATFORM}"]

[base.debian]
suite = "forky"
packages = ["emscripten", "file", "make", "python3"]
allow-expired = true
"""
SDK = """
[tools.sdk]
from = "emsdk"
version = "latest"

[tools.answer]
from = "port"

[tools.distant]
from = "port"

[derive.libraries]
steps = [
    "cp -r --no-preserve=mode /opt/emscripten-ports $EM_PORTS",
    "echo 'int main() {}' > p.cpp",
    "em++ -O2 p.cpp --use-port=answer --use-port=distant -o p.js",
]
env = { EM_CACHE = "$OUT", EM_PORTS = "$BUILD/ports" }
exports = { EM_CACHE = "$OUT", EM_FROZEN_CACHE = "1" }
mount = "/opt/emscripten-cache"
"""
PROJECT = """\
[project]
name = "sdk"
toolchain = "./toolchain.toml"

[targets.hello]
steps = [
    "emsdk install latest > emsdk.txt && emsdk activate latest >> emsdk.txt",
    "command -v em++ > where.txt; node --version >> where.txt",
    "em++ -O2 $SOURCE/hello.cpp $PORTS -o hello.js",
    # As in a checkout that brings an SDK of its own, and whose build installs it there.
    "mkdir -p ort/cmake/external/emsdk && rm -rf ort/cmake/external/emsdk && ln -s $EMSDK ort/cmake/external/emsdk",
    "cd ort/cmake/external/emsdk && { ./emsdk install latest; ./emsdk activate latest; } > $BUILD/ort.txt",
    "cd ort && cmake/external/emsdk/upstream/emscripten/em++ -O2 $SOURCE/hello.cpp $PORTS -o hello.js",
    "cmp hello.js ort/hello.js && cmp hello.wasm ort/hello.wasm",
]
env = { PORTS = "--use-port=answer --use-port=distant" }
outputs = ["hello.js", "hello.wasm", "*.txt"]
"""
HELLO = """\
#include <answer.h>
#include <distant.h>
#include <cstdio>
int main() { std::printf("%d %s\\n", answer(), distant()); }
"""
ANSWER = {
    "answer-1.0/answer.h": '#ifdef __cplusplus\nextern "C"\n#endif\nint answer(void);\n',
    "answer-1.0/answer.c": '#include <ground.h>\n#include "config.h"\nint answer(void) { return GROUND + TWO; }\n',
}
GROUND = {"ground-1.0/ground.h": "#define GROUND 40\n", "ground-1.0/ground.c": "int ground;\n"}
DISTANT = {
    "distant/distant.h": '#ifdef __cplusplus\nextern "C"\n#endif\nconst char *distant(void);\n',
    "distant/distant.c": 'const char *distant(void) { return "far away"; }\n',
    "distant/distant.port.py": """\
import os

LIBRARY = 'libdistant.a'


def get(ports, settings, shared):
  source = os.path.dirname(__file__)

  def create(final):
    ports.install_headers(source)
    ports.build_port(source, final, 'distant')

  return [shared.cache.get_lib(LIBRARY, create, what='port')]


def clear(ports, settings, shared):
  shared.cache.erase_lib(LIBRARY)
""",
}
REST = """

def clear(ports, settings, shared):
  shared.cache.erase_lib('lib{name}.a')


def show():
  return '{name} (--use-port={name}; MIT License)'
"""


@dataclass
class Workshop:
    """A project, a world that publishes what it needs, and a server of archives."""

    project: Path
    store: Path
    config: Path
    world: World
    server: Server
    version: str

    def run(self, *arguments: str, **options: object) -> Result:
        common = ("--project", str(self.project), "--store", str(self.store), "--backend", "bubblewrap")
        environ = {"LOCKBUILD_CONFIG": str(self.config)}
        return lockbuild(*common, *arguments, environ=environ, **options)  # type: ignore[arg-type]

    def publish(self, path: str, data: bytes) -> str:
        """Serve what https://archive.test has at ``path``; its SHA-512."""
        self.server.files[path] = data
        return hashlib.sha512(data).hexdigest()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    directory = tmp_path_factory.mktemp("sdk")
    project = directory / "project"
    project.mkdir()
    (project / "toolchain.toml").write_text(BASE)
    (project / "lockbuild.toml").write_text(PROJECT)
    (project / "hello.cpp").write_text(HELLO)
    with serving() as server:
        world = new_world(directory)
        world.base = f"{server.url}/builds"
        config = directory / "config.toml"
        mirror = f'[[mirrors]]\nprefix = "https://archive.test"\nto = ["{server.url}"]\n'
        config.write_text(world.toml() + mirror)
        store = Path(os.environ.get("LOCKBUILD_TEST_STORE", directory / "store"))
        made = Workshop(project, store, config, world, server, "")
        made.run("lock")
        digest = Digest.parse(made.run("sync", "--json").value["trees"][f"{PLATFORM}:base"])
        root = Store(store).tree_path(digest)
        made.version = (root / "usr/share/emscripten/emscripten-version.txt").read_text().strip().strip('"')
        ports = publish_ports(made)
        archive = make_release(root, directory, ports)
        made.world.release(
            made.version, columns={COLUMN: hashlib.sha256(archive.read_bytes()).hexdigest()}, ports=ports
        )
        path = archive_url("/builds", made.version, SUFFIX)
        server.files[path] = archive.read_bytes()
        archive.unlink()
        (project / "toolchain.toml").write_text(BASE + SDK)
        yield made


def publish_ports(workshop: Workshop) -> dict[str, str]:
    """Archives of three ports on the server; their port files by name."""
    answer = workshop.publish("/answer-1.0.zip", zipped(ANSWER))
    ground = workshop.publish("/ground-1.0.zip", zipped(GROUND))
    distant = workshop.publish("/v1/distant-v1.zip", zipped(DISTANT))
    # Like some real ports these write into their source while they are built.
    install = (
        "  def create(final):\n"
        "    directory = ports.get_dir('{name}', '{name}-' + VERSION)\n"
        "    ports.install_headers(directory)\n"
        "    ports.write_file(os.path.join(directory, 'config.h'), '#define TWO 2')\n"
    )
    texts = {
        name: port(name, deps=deps, digest=digest, body=REST.format(name=name)).replace(
            "  def create(final):\n", install.format(name=name)
        )
        for name, deps, digest in (("answer", ("ground",), answer), ("ground", (), ground))
    }
    texts["distant"] = (
        "_VERSION = 'v1'\n"
        "EXTERNAL_PORT = f'https://archive.test/{_VERSION}/distant-{_VERSION}.zip'\n"
        f"SHA512 = '{distant}'\nPORT_FILE = 'distant/distant.port.py'\n"
        "URL = 'https://archive.test'\nDESCRIPTION = 'A port of a test'\nLICENSE = 'MIT License'\n"
    )
    return texts


def make_release(root: Path, directory: Path, ports: dict[str, str]) -> Path:
    """An archive laid out as an official release, with what the base root ``root`` has of Emscripten."""
    install = directory / "install"
    (install / "bin").mkdir(parents=True)
    llvm = next((root / "usr/lib").glob("llvm-*"))
    for tool in TOOLS:
        shutil.copyfile(llvm / "bin" / tool, install / "bin" / tool)
        (install / "bin" / tool).chmod(0o744)
    for link, target in LINKS.items():
        (install / "bin" / link).symlink_to(target)
    for tool in (root / "usr/bin").glob("wasm*"):
        if not tool.is_symlink():
            shutil.copy(tool, install / "bin" / tool.name)
    libraries = root / f"usr/lib/{PLATFORM.machine}-linux-gnu"
    (install / "lib").mkdir()
    for library in libraries.rglob("libbinaryen.so*"):
        shutil.copy(library, install / "lib" / library.name)
    headers = Path("lib/clang") / llvm.name.removeprefix("llvm-") / "include"
    shutil.copytree(llvm / headers, install / headers, symlinks=True)
    emscripten = install / "emscripten"
    shutil.copytree(root / "usr/share/emscripten", emscripten, symlinks=True)
    (emscripten / ".emscripten").unlink(missing_ok=True)
    for module in ("acorn", "acorn-import-phases"):
        shutil.copytree(root / "usr/share/nodejs" / module, emscripten / "node_modules" / module)
    for name, text in ports.items():
        (emscripten / f"tools/ports/{name}.py").write_text(text)
    archive = directory / "wasm-binaries.tar.xz"
    command = ["tar", "--use-compress-program=xz -0 -T2", "-cf", archive, "-C", directory, "install"]
    subprocess.run(command, check=True)
    shutil.rmtree(install)
    return archive


def test_a_program_of_it_runs(workshop: Workshop) -> None:
    lock = workshop.project / "lockbuild.lock"
    workshop.run("lock")
    downloads = {request.path for request in workshop.server.requests}
    assert not any(path.endswith((".xz", ".zip")) for path in downloads), "locking needs no archive"
    locked = loads(lock.read_text(), "lockbuild.lock")
    assert locked.tree("tools.sdk", PLATFORM).pins["emscripten"] == workshop.version
    assert locked.tree("tools.answer+ground", PLATFORM).mount == "/opt/emscripten-ports/ground"

    workshop.run("sync")
    for path in list(workshop.server.files):
        del workshop.server.files[path]
    workshop.run("build", "--offline")
    dist = workshop.project / "dist"
    done = subprocess.run(["node", "hello.js"], cwd=dist, capture_output=True, text=True, check=True)
    assert done.stdout == "42 far away\n"
    node = locked.tree("tools.sdk", PLATFORM).pins["node"]
    assert (dist / "where.txt").read_text() == f"/opt/emsdk/upstream/emscripten/em++\nv{node}\n"
    # The second is what the launcher makes of "activate" where nobody can write.
    assert (dist / "emsdk.txt").read_text() == "the emsdk of a test\n" * 2
    assert (dist / "ort.txt").read_text() == "the emsdk of a test\n" * 2


def test_again_gives_the_same(workshop: Workshop) -> None:
    workshop.run("reproduce", "--record")
    workshop.run("reproduce", "--check-hash")
