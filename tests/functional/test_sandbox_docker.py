"""What holds for Docker: containers never remain, whatever happens to lockbuild."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker as docker_library
import pytest

from lockbuild.errors import SandboxError
from lockbuild.model.digest import Digest
from lockbuild.sandbox.docker import OWNER_LABEL, Docker
from lockbuild.sandbox.owner import Owner
from tests.support.engine import PrivateEngine
from tests.support.sandboxes import Sandbox, processes_with, shell, unique_sleep, wait_until

pytestmark = pytest.mark.docker

KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from lockbuild.model.digest import Digest
from lockbuild.sandbox.docker import Docker
from tests.support.busybox import make_spec
from tests.support.sandboxes import shell
work, url, image, seconds = Path(sys.argv[1]), *sys.argv[2:]
spec = replace(make_spec(work), image=Digest.parse(image))
with Docker({"DOCKER_HOST": url}).session(spec) as session:
    shell(session, f"setsid sleep {seconds} & sleep {seconds}")
"""


@pytest.fixture
def client(engine: PrivateEngine) -> Iterator[docker_library.APIClient]:
    client = docker_library.APIClient(base_url=engine.url, version="1.41")
    yield client
    client.close()


def containers(client: docker_library.APIClient) -> list[str]:
    return [container["Id"] for container in client.containers(all=True)]


def test_no_container_remains(docker: Sandbox, client: docker_library.APIClient) -> None:
    with docker.backend.session(docker.spec) as session:
        assert len(containers(client)) == 1
        shell(session, "touch x")
    assert containers(client) == []

    def fail() -> None:
        with docker.backend.session(docker.spec):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert containers(client) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_container_remains_of_a_killed_lockbuild(
    docker: Sandbox,
    engine: PrivateEngine,
    client: docker_library.APIClient,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    seconds = unique_sleep()
    arguments = [str(tmp_path), engine.url, str(docker.spec.image), seconds]
    caller = subprocess.Popen([sys.executable, "-c", KILLED, *arguments], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(processes_with(seconds)) >= 3)  # the caller, and both in the container
        assert len(containers(client)) == 1
    finally:
        caller.send_signal(number)
        caller.wait()
    # Nobody is left to remove it: it ends by itself.
    wait_until(lambda: not processes_with(seconds))
    wait_until(lambda: not containers(client))


def test_leftovers_that_never_started_are_removed_later(
    docker: Sandbox, client: docker_library.APIClient
) -> None:
    code = "from lockbuild.sandbox.owner import Owner; print(Owner.current())"
    dead = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    elsewhere = str(replace(Owner.current(), boot="another-machine"))
    labels = {"dead": dead, "alive": str(Owner.current()), "elsewhere": elsewhere, "odd": "nonsense"}
    made = {
        name: client.create_container(str(docker.spec.image), labels={OWNER_LABEL: label})["Id"]
        for name, label in labels.items()
    }
    try:
        with docker.backend.session(docker.spec):
            left = set(containers(client))
        assert made["dead"] not in left
        assert {made["alive"], made["elsewhere"], made["odd"]} <= left
    finally:
        for name in ("alive", "elsewhere", "odd"):
            client.remove_container(made[name])


def test_a_container_that_is_taken_away(docker: Sandbox, client: docker_library.APIClient) -> None:
    def build() -> None:
        with docker.backend.session(docker.spec) as session:
            client.kill(containers(client)[0])
            shell(session, "true")

    with pytest.raises(SandboxError):
        build()
    assert containers(client) == []


def test_an_image_that_is_not_there(docker: Sandbox, client: docker_library.APIClient) -> None:
    with pytest.raises(
        SandboxError, match=r"does not have the environment's image\nhint: run `lockbuild sync`"
    ):
        docker.backend.session(replace(docker.spec, image=Digest("0" * 64))).__enter__()
    with pytest.raises(SandboxError, match="the environment has no image"):
        docker.backend.session(replace(docker.spec, image=None)).__enter__()
    assert containers(client) == []


def test_two_sessions_at_once(docker: Sandbox) -> None:
    texts: dict[int, str] = {}

    def build(number: int) -> None:
        with docker.backend.session(docker.spec) as session:
            shell(session, f"echo {number} > mine; sleep 0.2")
            texts[number] = shell(session, "cat mine")[1]

    threads = [threading.Thread(target=build, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {0: "0\n", 1: "1\n"}


@pytest.mark.slow
def test_a_command_may_be_silent_for_long(docker: Sandbox) -> None:
    with docker.backend.session(docker.spec) as session:
        started = time.monotonic()
        assert shell(session, "sleep 65; echo awake") == (0, "awake\n")
        assert time.monotonic() - started > 65


def test_no_engine_is_said_with_the_remedy() -> None:
    backend = Docker({"DOCKER_HOST": "unix:///nonexistent.sock"})
    assert backend.unavailable() is not None
    assert "at unix:///nonexistent.sock; start Docker" in str(backend.unavailable())
    assert "ssh -L" in str(Docker({"DOCKER_HOST": "ssh://host"}).unavailable())
