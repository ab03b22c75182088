"""``lockbuild export``: what is written is used by the programs that it is for."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker as docker_library
import pytest
import yaml

from lockbuild.model.lockfile import loads
from tests.support.engine import PrivateEngine
from tests.support.registry import Registry, registry
from tests.support.tiny import PLATFORM, TinyWorld


@pytest.fixture
def client(engine: PrivateEngine) -> Iterator[docker_library.APIClient]:
    client = docker_library.APIClient(base_url=engine.url, version="1.41", timeout=120)
    yield client
    client.close()


def image_id(world: TinyWorld) -> str:
    text = (world.project / "lockbuild.lock").read_text()
    return str(loads(text, "lockbuild.lock").environments[str(PLATFORM)].image)


def run(client: docker_library.APIClient, image: str, script: str, **options: Any) -> str:
    """What ``script`` prints in a container of ``image``; AssertionError where it fails."""
    host = client.create_host_config(network_mode="none", **options)
    name = client.create_container(image, command=["sh", "-ec", script], host_config=host)["Id"]
    try:
        client.start(name)
        status = client.wait(name)["StatusCode"]
        said: str = client.logs(name).decode()
        assert status == 0, said
        return said
    finally:
        client.remove_container(name, force=True)


def test_a_file_that_is_current_is_left_alone(shared: TinyWorld) -> None:
    path = shared.project / "made/compose.yaml"
    assert shared.run("export", "compose", "-o", path, "--json").value == {"path": str(path), "written": True}
    before = path.stat().st_ino
    assert shared.run("export", "compose", "-o", path, "--json").value == {
        "path": str(path),
        "written": False,
    }
    assert path.stat().st_ino == before
    checked = shared.run("export", "compose", "-o", path, "--check", "--json").value
    assert checked == {"path": str(path), "current": True}


def test_a_check_says_that_a_file_is_stale_or_missing(shared: TinyWorld) -> None:
    path = shared.project / "Dockerfile"
    told = shared.run("export", "dockerfile", "--check", status=1).out
    assert told == f"{path} is not there; `lockbuild export dockerfile -o Dockerfile` writes it\n"
    assert not path.exists()
    path.write_text("FROM scratch\n")
    told = shared.run("export", "dockerfile", "--check", status=1).out
    assert told.startswith(f"{path} is not what the lock gives; ")
    assert path.read_text() == "FROM scratch\n"
    shared.run("export", "dockerfile", "-o", path)
    shared.run("export", "dockerfile", "--check")
    error = shared.run("export", "env", "--check", status=2).err
    assert "name it with -o FILE" in error


def test_the_same_text_from_anywhere(shared: TinyWorld, tmp_path: Path) -> None:
    first = shared.run("export", "dockerfile", environ={"PYTHONHASHSEED": "1"})
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(shared.project, elsewhere)
    second = shared.run("export", "dockerfile", project=elsewhere, environ={"PYTHONHASHSEED": "2"})
    assert first.out == second.out
    assert str(shared.store) not in first.out
    assert shared.run("export", "dockerfile", "--json").value == {"text": first.out}


def test_a_stale_lock_exports_nothing(shared: TinyWorld) -> None:
    shared.edit("toolchain.toml", '"greeting"', '"greeting", "busybox"')
    assert "does not belong" in shared.run("export", "compose", status=1).err


def test_the_variables_of_a_target(shared: TinyWorld) -> None:
    plain = shared.run("export", "env", "--format", "json").out
    assert "EMCC_CFLAGS" not in json.loads(plain)
    assert json.loads(plain)["WORDS"] == "/opt/words/words"
    built = json.loads(shared.run("export", "env", "--format", "json", "--target", "tiny").out)
    assert "-ffile-prefix-map=/build/source=source" in built["EMCC_CFLAGS"]
    inside = shared.run("run", "--", "env").out.splitlines()
    assert {f"{name}={value}" for name, value in built.items() if name != "LOCKBUILD_IMAGE"} == {
        line for line in inside if not line.startswith(("PWD=", "OLDPWD=", "SHLVL=", "_="))
    }
    assert "there is no target 'x'" in shared.run("export", "env", "--target", "x", status=2).err


def test_there_are_no_presets_without_cmake(shared: TinyWorld) -> None:
    assert "the environment has no CMake" in shared.run("export", "cmake-presets", status=2).err


@pytest.mark.docker
def test_docker_builds_the_dockerfile(
    shared: TinyWorld, engine: PrivateEngine, client: docker_library.APIClient
) -> None:
    shared.edit("lockbuild.toml", "outputs =", "env = { ODD = 'a \"b\" $c \\ d' }\noutputs =")
    shared.run("sync", environ=engine.environ, backend="docker")
    path = shared.project / "Dockerfile"
    shared.run(
        "export", "dockerfile", "--target", "tiny", "-o", path, environ=engine.environ, backend="docker"
    )
    parent = next(line.split()[1] for line in path.read_text().splitlines() if line.startswith("FROM "))
    assert client.inspect_image(parent)["Id"] == image_id(shared)
    log = list(
        client.build(path=str(shared.project), tag="exported", network_mode="none", decode=True, rm=True)
    )
    assert not [line for line in log if "error" in line], log
    script = 'id -u; pwd; touch $BUILD/x $HOME/y /tmp/z; cat $WORDS; printf "%s\\n" "$ODD"'
    assert run(client, "exported", script).splitlines() == [
        "1000",
        "/build/build",
        "HELLO",
        'a "b" $c \\ d',
    ]


@pytest.mark.docker
def test_a_development_container_works(
    shared: TinyWorld, engine: PrivateEngine, client: docker_library.APIClient
) -> None:
    shared.run("sync", environ=engine.environ, backend="docker")
    value = json.loads(shared.run("export", "devcontainer", environ=engine.environ, backend="docker").out)
    tmpfs = dict(option.removeprefix("--tmpfs=").split(":") for option in value["runArgs"])
    script = "cd $HOME; touch a /build/build/b /tmp/c; printf '#!/bin/sh\\necho runs\\n' > d; chmod +x d; ./d"
    assert run(client, value["image"], script, tmpfs=tmpfs) == "runs\n"
    assert "build:x:1000" in run(client, value["image"], "cat /etc/passwd")


@pytest.mark.docker
def test_compose_runs_the_service(shared: TinyWorld, engine: PrivateEngine) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    shared.run("sync", environ=engine.environ, backend="docker")
    path = shared.project / "compose.yaml"
    shared.run("export", "compose", "-o", path, environ=engine.environ, backend="docker")
    assert yaml.safe_load(path.read_text())["services"]["environment"]["pull_policy"] == "never"
    script = (
        "cat $SOURCE/main.txt $WORDS > $BUILD/x; cat $BUILD/x; touch $SOURCE/y 2>/dev/null || echo refused"
    )
    done = subprocess.run(
        [program, "-f", str(path), "run", "--rm", "-T", "environment", "sh", "-c", script],
        env={**shared.process_environ, **engine.environ, "COMPOSE_API_VERSION": "1.41"},
        cwd=shared.project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["world", "HELLO", "refused"], done.stderr


@pytest.fixture
def pushed(
    shared: TinyWorld, engine: PrivateEngine, client: docker_library.APIClient, tmp_path: Path
) -> Iterator[tuple[Registry, str]]:
    """A registry that has the image as Docker itself pushes it; and the digest that it has there."""
    with registry(tmp_path / "registry") as running:
        shared.run("sync", environ=engine.environ, backend="docker")
        client.tag(image_id(shared), f"{running.host}/team/tiny", tag="1")
        log = list(client.push(f"{running.host}/team/tiny", tag="1", stream=True, decode=True))
        digests = [line["aux"]["Digest"] for line in log if "aux" in line]
        assert digests, log
        yield running, digests[0]


@pytest.mark.docker
def test_an_image_in_a_registry_is_pinned(shared: TinyWorld, pushed: tuple[Registry, str]) -> None:
    running, digest = pushed
    reference = f"{running.host}/team/tiny:1"
    text = shared.run("export", "dockerfile", "--image", reference).out
    assert f"\nFROM {reference}@{digest}\n" in text
    assert "image load" not in text
    again = shared.run("export", "dockerfile", "--image", f"{reference}@{digest}").out
    assert again == text
    offline = shared.run("export", "dockerfile", "--image", f"{reference}@{digest}", "--offline")
    assert offline.out == text
    assert "the lock does not record that digest" in offline.err
    error = shared.run("export", "dockerfile", "--image", reference, "--offline", status=2).err
    assert "can only be asked of the registry" in error


@pytest.mark.docker
def test_another_image_in_its_place_is_refused(shared: TinyWorld, pushed: tuple[Registry, str]) -> None:
    running, _ = pushed
    before = image_id(shared)
    shared.edit("toolchain.toml", "tr a-z A-Z", "tr a-z b-za")
    shared.run("lock", "--materialise")
    assert image_id(shared) != before
    error = shared.run("export", "compose", "--image", f"{running.host}/team/tiny:1", status=5).err
    assert f"the registry has another image there: {before}, and the lock has {image_id(shared)}" in error
    missing = shared.run("export", "compose", "--image", f"{running.host}/team/none:1", status=4).err
    assert "team/none" in missing


def test_what_is_no_reference(shared: TinyWorld) -> None:
    error = shared.run("export", "compose", "--image", "environment:1", status=2).err
    assert error.startswith("error: --image: 'environment:1' names no registry")
