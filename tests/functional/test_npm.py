"""Packages of an npm registry, locked by a package-lock.json and installed by the real npm without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.model.lockfile import loads
from lockbuild.store import Store
from tests.support.npm import NpmPackage, make_package_lock, npm_package, npm_without_network, packument
from tests.support.tiny import TinyWorld, tiny_world

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")

LEFT = npm_package("left")
ODD = npm_package("@corp/odd", "2.1.0", dependencies={"left": "^1.0.0"})
MAC = npm_package("mac-only", os=["darwin"])
USE = 'node -e \'console.log(require("@corp/odd"), require("left"))\''
RESOLVED, UNRESOLVED = "--omit-lockfile-registry-resolved=false", "--omit-lockfile-registry-resolved=true"
COPY = (
    'cp -r --no-preserve=mode "$npm_config_cache" home/cache && export npm_config_cache=$PWD/home/cache && '
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    """The tiny world with a tool from npm and a registry on loopback."""
    with tiny_world(tmp_path) as made:
        with (made.project / "toolchain.toml").open("a") as file:
            file.write('\n[tools.web]\nfrom = "npm"\nlockfile = "web/package-lock.json"\n')
        yield made


def serve(world: TinyWorld, *packages: NpmPackage) -> str:
    """Publish ``packages``; the registry's URL."""
    registry = f"{world.server.url}/npm"
    for package in packages:
        world.server.add(f"/npm/{package.path}", package.data)
        world.server.add(f"/npm/{package.name}", packument(package, registry), "application/json")
    return registry


def synced(world: TinyWorld) -> tuple[Path, dict[str, str]]:
    """The tree of the tool, and what it exports with its place in the store as mount point."""
    world.run("lock", "--materialise")
    lock = loads((world.project / "lockbuild.lock").read_text(), "lockbuild.lock")
    (tree,) = [tree for tree in lock.trees if tree.name == "tools.web"]
    assert tree.digest is not None
    place = Store(world.store).tree_path(tree.digest) / "opt/web"
    return place, {name: value.replace("$OUT", str(place)) for name, value in tree.exports.items()}


@pytest.fixture
def served(world: TinyWorld) -> TinyWorld:
    registry = serve(world, LEFT, ODD, MAC)
    with (world.directory / "config.toml").open("a") as file:
        file.write(f'\n[npm]\nregistry = "{registry}"\n')
    return world


def test_npm_installs_from_a_read_only_cache(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    make_package_lock(
        served.project / "web",
        RESOLVED,
        registry=registry,
        dependencies={"@corp/odd": "2.1.0"},
        optionalDependencies={"mac-only": "1.0.0"},
    )
    place, variables = synced(served)
    text = (served.project / "lockbuild.lock").read_text()
    assert "127.0.0.1" not in text
    assert "mac-only" not in text
    done = npm_without_network(served.project / "web", f"npm ci && {USE}", variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "@corp/odd left" in done.stdout
    assert "warn" not in done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["cache"]


def test_a_lock_file_that_does_not_say_where_packages_are(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    make_package_lock(
        served.project / "web", UNRESOLVED, registry=registry, dependencies={"@corp/odd": "2.1.0"}
    )
    _, variables = synced(served)
    done = npm_without_network(served.project / "web", f"{COPY} npm ci && {USE}", variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "@corp/odd left" in done.stdout


def test_the_registry_that_the_file_names_does_not_decide_the_tree(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    file = make_package_lock(
        served.project / "web", RESOLVED, registry=registry, dependencies={"@corp/odd": "2.1.0"}
    )
    place, _ = synced(served)
    file.write_text(file.read_text().replace(registry, "https://elsewhere.test/api/npm/all"))
    assert synced(served)[0] == place


def test_a_changed_lock_file_makes_the_lock_stale(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    file = make_package_lock(
        served.project / "web", RESOLVED, registry=registry, dependencies={"left": "1.0.0"}
    )
    place, _ = synced(served)
    served.run("sync")
    served.run("lock", "--check")
    shutil.rmtree(file.parent)
    make_package_lock(file.parent, RESOLVED, registry=registry, dependencies={"@corp/odd": "2.1.0"})
    for command in (["lock", "--check"], ["sync"], ["build"]):
        failed = served.run(*command, status=1)
        assert "web/package-lock.json" in failed.err + failed.out, failed
    assert synced(served)[0] != place
    served.run("lock", "--check")
    file.unlink()
    assert "web/package-lock.json (tools.web) is gone" in served.run("sync", status=1).err


def test_a_registry_with_other_bytes(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    make_package_lock(served.project / "web", RESOLVED, registry=registry, dependencies={"left": "1.0.0"})
    served.run("lock")
    served.server.files[f"/npm/{LEFT.path}"] = npm_package("left", description="evil").data
    failed = served.run("sync", status=5)
    assert "pkg:npm/left@1.0.0" in failed.err


def test_what_is_missing_is_named_offline(served: TinyWorld) -> None:
    registry = f"{served.server.url}/npm"
    make_package_lock(
        served.project / "web", RESOLVED, registry=registry, dependencies={"@corp/odd": "2.1.0"}
    )
    served.run("lock")
    failed = served.run("sync", "--offline", status=4)
    assert "would come from an npm registry:" in failed.err
    assert " @corp/odd/-/odd-2.1.0.tgz" in failed.err


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("resolved", [True, False])
def test_the_real_registry(world: TinyWorld, resolved: bool) -> None:
    """Locked with this machine's npm, fetched from the registry that it is configured for, installed without it."""
    file = make_package_lock(
        world.project / "web",
        RESOLVED if resolved else UNRESOLVED,
        dependencies={"is-odd": "3.0.1", "@types/left-pad": "1.2.0"},
        optionalDependencies={"fsevents": "2.3.3"},
    )
    assert ('"resolved"' in file.read_text()) == resolved
    _, variables = synced(world)
    text = (world.project / "lockbuild.lock").read_text()
    assert "pkg:npm/%40types/left-pad@1.2.0" in text
    assert "fsevents" not in text
    assert "http" not in text.partition("[[sources]]")[2]
    script = 'npm ci && node -e \'console.log(require("is-odd")(3), require("left-pad")(1, 3, 0))\''
    done = npm_without_network(world.project / "web", script if resolved else COPY + script, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "true 001" in done.stdout
    packages = json.loads(file.read_text())["packages"]
    assert len([name for name in packages if name]) == 5
