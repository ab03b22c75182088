"""The locks that are shipped belong to the toolchains that are shipped, and say what these are known to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.environment.compose import compose, in_environment
from lockbuild.model.lock import Lock
from lockbuild.model.lockfile import loads
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from lockbuild.workflow.image import require_recorded_id
from lockbuild.workflow.lock import check_lock
from lockbuild.workflow.project import load_lock, load_project
from lockbuild.workflow.toolchains import shipped_toolchains
from lockbuild.workflow.workspace import ProjectPaths

REPOSITORY = Path(__file__).parents[3]
LOCKS = REPOSITORY / "locks"
EXAMPLES = sorted(file.parent for file in (REPOSITORY / "examples").rglob("lockbuild.lock"))


def lock(name: str) -> Lock:
    file = LOCKS / f"{name}.lock"
    return loads(file.read_text(encoding="utf-8"), str(file))


@pytest.mark.parametrize("name", shipped_toolchains())
def test_every_toolchain_has_a_lock_that_is_current(name: str) -> None:
    """Else: ``lockbuild lock --toolchain NAME -o locks/NAME.lock``."""
    file = shipped_toolchains()[name]
    project = load_project(ProjectPaths(file.parent, toolchain=file, lock_file=LOCKS / f"{name}.lock"))
    assert check_lock(project) == []


def test_locks_of_toolchains_record_no_image() -> None:
    """Where one does, it belongs among the examples' images below."""
    assert [file.name for file in LOCKS.iterdir() if lock(file.stem).environments] == []


@pytest.mark.parametrize("directory", EXAMPLES, ids=lambda directory: directory.name)
def test_every_example_records_the_image_that_its_trees_give(directory: Path, tmp_path: Path) -> None:
    """Else: ``lockbuild lock --materialise --project DIRECTORY``."""
    project = load_project(ProjectPaths(directory))
    found = load_lock(project.paths)
    assert check_lock(project) == []
    assert found.environments
    store = Store(tmp_path)
    for platform, recorded in found.environments.items():
        layers = []
        for tree in in_environment(tree for tree in found.trees if str(tree.platform) in (platform, "any")):
            assert tree.digest is not None
            # All that an image's ID takes from a tree beside its digest: whether there are programs in it.
            place = tmp_path / "trees" / "sha256" / tree.digest.hex / tree.mount.lstrip("/")
            (place / "bin" if tree.name.startswith("tools.") else place).mkdir(parents=True)
            layers.append((tree, tree.digest))
        require_recorded_id(project, found, compose(store, Platform.parse(platform), layers))
        assert recorded.size is not None


def test_there_is_no_other_lock() -> None:
    assert {file.stem for file in LOCKS.iterdir()} == set(shipped_toolchains())


def test_what_executorch_is_built_with() -> None:
    found = lock("executorch-webgpu")
    pins = {tree.name: tree.pins for tree in found.trees}
    assert pins["tools.emscripten"]["release"] == "8b01e2ec3f33e6b94842096d7312ce4ef5f33f6c"
    assert pins["tools.emdawnwebgpu"]["version"] == "v20251002.162335"
    assert pins["tools.emdawnwebgpu"]["dawn"] == "01940842b667a7812d0e4ca0ef4367fbec294241"
    archives = {
        source.trees[0].partition(":")[0]: source.sha256.hex
        for source in found.sources
        if source.purl.startswith("pkg:generic/emscripten@") and source.sha256
    }
    assert archives == {
        "linux/amd64": "f83aa5ee648a4591ddbfcbd19a3040056c9c5a846adb2b9c342b37f2dd557f82",
        "linux/arm64": "75c040b3463e58ba1fc15c18878327ef678a5f64621378cf2899aa4cf54c1dab",
    }
    (port,) = [source for source in found.sources if source.purl.startswith("pkg:generic/emdawnwebgpu@")]
    assert port.sha512 is not None
    assert port.sha512.startswith("ed15672c2c495a77c764929e6979f4e155bf8b9c46dee5b0f234f3208a708bc2")
    claimed = {file.path: (file.size, file.sha256.hex[:16]) for file in found.claims["executorch"].files}
    assert claimed == {
        "executorch_wasm_lib.js": (165877, "8a631b1537927f8f"),
        "executorch_wasm_lib.wasm": (6562188, "35a9087d0b6cd86c"),
    }
    assert found.outputs == {}


def test_the_stale_docstring_of_the_port_is_not_believed() -> None:
    pins = {tree.name: tree.pins for tree in lock("emscripten-debian-webgpu").trees}
    assert pins["tools.emdawnwebgpu"]["version"] == "v20260423.175430"
    assert pins["tools.emdawnwebgpu"]["dawn"].startswith("b975919d")


def test_onnxruntime_has_no_second_set_of_bindings() -> None:
    for name in ("onnxruntime-webgpu", "onnxruntime-webgpu-jspi"):
        assert not any("emdawnwebgpu" in tree.name for tree in lock(name).trees)
