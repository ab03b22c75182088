"""The images in containers/: their manifests and locks fit, and the one with lockbuild in it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker as docker_library
import pytest

from lockbuild.workflow.lock import check_lock
from lockbuild.workflow.project import load_project
from lockbuild.workflow.workspace import ProjectPaths
from tests.support.command import python_path
from tests.support.engine import PrivateEngine

ROOT = Path(__file__).parents[2]


def test_the_lock_of_the_base_is_current() -> None:
    paths = ProjectPaths(ROOT / "containers/ci")
    assert check_lock(load_project(paths)) == []


def test_the_manifest_of_the_image_extends_it() -> None:
    base = load_project(ProjectPaths(ROOT / "containers/ci")).manifest.toolchain
    image = load_project(ProjectPaths(ROOT / "containers/lockbuild")).manifest.toolchain
    assert image.base == base.base
    assert set(image.tools) == {"lockbuild"}


@pytest.fixture
def client(engine: PrivateEngine) -> Iterator[docker_library.APIClient]:
    client = docker_library.APIClient(base_url=engine.url, version="1.41", timeout=300)
    yield client
    client.close()


def run(client: docker_library.APIClient, image: str, *command: str, **options: Any) -> tuple[int, str]:
    """The exit status of ``command`` in a container of ``image``, and what it printed."""
    host = {**client.create_host_config(network_mode="none"), **options}
    name = client.create_container(image, command=list(command), host_config=host, user="0:0")["Id"]
    try:
        client.start(name)
        status: int = client.wait(name)["StatusCode"]
        return status, client.logs(name, stdout=True, stderr=False).decode()
    finally:
        client.remove_container(name, force=True)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.network
def test_the_image_with_lockbuild_in_it(
    engine: PrivateEngine, client: docker_library.APIClient, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    kept = ("README.md", "LICENSE", "pyproject.toml", "lockbuild", "toolchains", "locks", "containers")
    checkout.mkdir()
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, checkout / name)
    # Packages leave mirrors: what matters here is not which ones it has.
    (checkout / "containers/ci/lockbuild.lock").unlink()
    done = subprocess.run(
        [sys.executable, "containers/lockbuild/make.py", "image", "load", "--tag", "lockbuild-test:image"],
        cwd=checkout,
        env={
            **os.environ,
            **python_path(),
            **engine.environ,
            "LOCKBUILD_STORE": str(tmp_path / "store"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    image = "lockbuild-test:image"
    status, said = run(client, image, "lockbuild", "--version")
    assert (status, said.split()[0]) == (0, "lockbuild")
    # With a sandbox of its own in it, and with the engine that it runs in.
    # What the docker command makes of --security-opt systempaths=unconfined.
    unconfined = {"SecurityOpt": ["seccomp=unconfined"], "MaskedPaths": [], "ReadonlyPaths": []}
    socket = {"Binds": [f"{engine.url.removeprefix('unix://')}:/var/run/docker.sock"]}
    doctor = ("lockbuild", "doctor", "--offline", "--json")
    ways: list[tuple[dict[str, Any], str]] = [
        (unconfined, "builds run in bubblewrap"),
        (socket, "builds run in containers"),
    ]
    for options, expected in ways:
        status, said = run(client, image, *doctor, **options)
        findings = {finding["check"]: finding for finding in json.loads(said)["findings"]}
        assert findings["sandbox"]["message"] == expected
        assert {name for name in ("git", "gpgv", "keyring", "ca") if findings[name]["level"] != "ok"} == set()
        assert findings["ca"]["subject"] == "/opt/authorities/ca-certificates.crt"
        assert status == 0
    assert run(client, image, *doctor)[0] == 7
    # What it needs of itself beside its modules is there, too.
    script = "import lockbuild.sandbox.seccomp as s; print(s.profile_file().read_text(), end='')"
    status, said = run(
        client, image, "sh", "-c", f'PYTHONPATH=/opt/lockbuild/lib/python python3 -c "{script}"'
    )
    assert (status, said) == (0, (ROOT / "containers/seccomp.json").read_text())
