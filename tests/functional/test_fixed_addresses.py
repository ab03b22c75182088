"""Address randomisation is off in every sandbox, and the profile that lets an engine do so allows nothing else."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import docker as docker_library
import pytest

from lockbuild.events import silent
from lockbuild.model.environment import SandboxSpec
from lockbuild.oci.image import compute
from lockbuild.oci.load import ensure_loaded
from lockbuild.sandbox import seccomp
from lockbuild.sandbox.docker import Docker
from lockbuild.sandbox.seccomp import engine_filter, profile_file
from lockbuild.transport.engine import EngineEndpoint
from tests.support import syscall_probe
from tests.support.engine import PrivateEngine, private_engine
from tests.support.podman import podman
from tests.support.sandboxes import Sandbox, shell
from tests.support.syscall_probe import Machine, Question

__all__ = ["podman"]

ADDR_NO_RANDOMIZE = 0x0040000
MACHINES: tuple[Machine, ...] = ("native", "i386")

NOT_IN_OURS = {
    # Calls that some engine's own profile allows and another's refuses: ours refuses them everywhere.
    "native": {278, 303, 310, 311, 329, 330, 331, 333, 425, 426, 427, *range(449, 512)},
    "i386": {316, 341, 347, 348, 380, 381, 382, 385, 416, 425, 426, 427, *range(449, 512)},
}
AF_VSOCK = 40


def addresses(sandbox: Sandbox) -> tuple[str, list[str]]:
    """A process's personality, and where its parts stand in memory."""
    with sandbox.backend.session(sandbox.spec) as session:
        status, said = shell(session, "cat /proc/self/personality /proc/self/maps")
    assert status == 0, said
    personality, *maps = said.splitlines()
    wanted = [line for line in maps if re.search(r"\[(heap|stack|vdso)\]|busybox", line)]
    return personality, [line.split()[0] for line in wanted]


def test_addresses_are_the_same_in_every_run(sandbox: Sandbox) -> None:
    personality, first = addresses(sandbox)
    assert int(personality, 16) == ADDR_NO_RANDOMIZE
    assert len(first) >= 4
    assert addresses(sandbox) == (personality, first)
    assert sandbox.backend.guarantees.address_randomisation_off


def test_a_command_that_is_not_there_is_told_as_ever(sandbox: Sandbox) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        assert session.run(["/no/such"], cwd="/build/build", variables={}, output=lambda data: None) == 127


@pytest.mark.docker
def test_an_environment_without_setarch(
    busybox_spec: SandboxSpec, engine: PrivateEngine, tmp_path: Path
) -> None:
    from tests.support.busybox import make_spec

    tmp_path.chmod(0o755)
    spec = make_spec(tmp_path / "environment", setarch=False)
    identity = ensure_loaded(compute(spec.environment, labels={}), spec.environment, engine.endpoint, silent)
    personality, first = addresses(
        Sandbox(Docker({}, endpoint=engine.endpoint), replace(spec, image=identity))
    )
    assert int(personality, 16) == 0
    assert first


@pytest.mark.docker
def test_an_administrators_profile_stays(busybox_spec: SandboxSpec, tmp_path: Path) -> None:
    chosen = json.loads(profile_file().read_text())
    chosen["syscalls"] = [rule for rule in chosen["syscalls"] if "personality" not in rule["names"]]
    (tmp_path / "chosen.json").write_text(json.dumps(chosen))
    with private_engine("--seccomp-profile", str(tmp_path / "chosen.json")) as engine:
        assert engine_filter(engine.endpoint) == "chosen"
        image = compute(busybox_spec.environment, labels={})
        identity = ensure_loaded(image, busybox_spec.environment, engine.endpoint, silent)
        backend = Docker({}, endpoint=engine.endpoint)
        assert not backend.guarantees.address_randomisation_off
        assert backend.guarantees.reproducible
        personality, _ = addresses(Sandbox(backend, replace(busybox_spec, image=identity)))
        assert int(personality, 16) == 0


@pytest.mark.docker
def test_podman_does_so_too(busybox_spec: SandboxSpec, podman: EngineEndpoint) -> None:
    assert engine_filter(podman) == "built-in"
    image = compute(busybox_spec.environment, labels={})
    identity = ensure_loaded(image, busybox_spec.environment, podman, silent)
    backend = Docker({}, endpoint=podman)
    sandbox = Sandbox(backend, replace(busybox_spec, image=identity))
    personality, first = addresses(sandbox)
    assert int(personality, 16) == ADDR_NO_RANDOMIZE
    assert addresses(sandbox) == (personality, first)
    assert backend.guarantees.address_randomisation_off


@pytest.mark.docker
def test_a_podman_that_cannot_read_the_profile(
    busybox_spec: SandboxSpec, podman: EngineEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "profile_file", lambda: tmp_path / "elsewhere.json")
    image = compute(busybox_spec.environment, labels={})
    identity = ensure_loaded(image, busybox_spec.environment, podman, silent)
    backend = Docker({}, endpoint=podman)
    personality, _ = addresses(Sandbox(backend, replace(busybox_spec, image=identity)))
    assert int(personality, 16) == 0
    assert not backend.guarantees.address_randomisation_off


@pytest.fixture
def client(engine: PrivateEngine) -> Iterator[docker_library.APIClient]:
    client = docker_library.APIClient(base_url=engine.url, version="1.41", timeout=120)
    yield client
    client.close()


def answers(client: docker_library.APIClient, image: str, directory: Path, *security: str) -> list[str]:
    """What a container under a seccomp profile is told by each system call of ``directory / "questions"``."""
    # The machine's own Python, in a container of the private engine, which is on this machine.
    places = {
        "/usr",
        "/bin",
        "/lib",
        "/lib64",
        sys.base_prefix,
        str(Path(__file__).parents[1]),
        str(directory),
    }
    host = client.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", *security],
        binds=[f"{place}:{place}:ro" for place in sorted(places) if Path(place).is_dir()],
    )
    script = f'"$0" {syscall_probe.__file__} < {directory}/questions'
    name = client.create_container(
        image,
        entrypoint=["/bin/sh", "-c", script, str(Path(sys.executable).resolve())],
        host_config=host,
        user="0:0",
    )["Id"]
    try:
        client.start(name)
        status = client.wait(name)["StatusCode"]
        said = client.logs(name, stdout=True, stderr=False)
        assert status == 0, client.logs(name)
    finally:
        client.remove_container(name, force=True)
    found: list[str] = json.loads(said)
    return found


def compared(
    client: docker_library.APIClient, image: str, questions: list[Question], directory: Path
) -> list[tuple[Question, str, str]]:
    """The questions that have other answers under the profile than under the engine's own, with both."""
    (directory / "questions").write_text(syscall_probe.ask(questions))
    profiles = [(), (f"seccomp={profile_file().read_text()}",)]
    with ThreadPoolExecutor() as pool:
        default, ours = pool.map(lambda security: answers(client, image, directory, *security), profiles)
    asked = zip(questions, default, ours, strict=True)
    return [(question, before, now) for question, before, now in asked if before != now]


def refused(answer: str) -> bool:
    """By a filter, as far as it can be seen: EPERM, or ENOSYS where the number is new to it."""
    return answer in ("errno 1", "errno 38")


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.skipif(syscall_probe.MACHINE != "x86_64", reason="it has the numbers of x86-64 and i386")
def test_the_profile_allows_nothing_else(
    docker: Sandbox, client: docker_library.APIClient, tmp_path: Path
) -> None:
    questions = [
        question
        for machine in MACHINES
        for question in (
            *syscall_probe.every_number(machine, value=-1),
            *syscall_probe.by_arguments(machine),
        )
    ]
    image = str(docker.spec.image)
    tmp_path.chmod(0o755)
    differing = compared(client, image, questions, tmp_path)
    # On a busy machine a call may seem to wait.
    again = [replace(question, seconds=5) for question, _, _ in differing]
    differing = compared(client, image, again, tmp_path)
    more = [question for question, before, now in differing if refused(before) and not refused(now)]
    less = [question for question, before, now in differing if refused(now) and not refused(before)]
    assert [(question.machine, question.arguments) for question in more] == [
        (machine, [base | ADDR_NO_RANDOMIZE]) for machine in MACHINES for base in (0x0, 0x20000, 0x8, 0x20008)
    ]
    assert {question.number for question in more} == {135, 136}
    for question in less:
        vsock = question.number == syscall_probe.SOCKET[question.machine] and question.arguments == [AF_VSOCK]
        assert vsock or question.number in NOT_IN_OURS[question.machine], question
