"""What builds can run in: a container engine, or bubblewrap with user namespaces."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lockbuild.doctor.finding import Finding, ok, problem, warning
from lockbuild.errors import ExitStatus, SandboxError
from lockbuild.model.platform import Platform
from lockbuild.sandbox.bwrap_program import INSTALL, find_program, is_setuid, trial
from lockbuild.sandbox.select import Wanted
from lockbuild.transport.engine import API_VERSION, EngineEndpoint, find_engine

ENGINE = "engine"
BUBBLEWRAP = "bubblewrap"


def engine(environ: Mapping[str, str], platform: Platform) -> Iterator[Finding]:
    """Whether a container engine answers, and what it is like."""
    endpoint = find_engine(environ)
    if endpoint is None:
        yield _no_engine(environ)
        return
    try:
        version: Any = endpoint.request("GET", "/version", timeout=5).json()
        answer = endpoint.request("GET", "/info", timeout=5)
        info: Any = answer.json()
    except SandboxError as error:
        yield warning(ENGINE, error.what, subject=endpoint.url, remedy=error.hint)
        return
    if answer.status != 200 or not isinstance(version, dict) or not isinstance(info, dict):
        yield warning(
            ENGINE,
            f"it does not speak the engine API {API_VERSION}",
            subject=endpoint.url,
            remedy="use Docker 20.10 or newer, or Podman 4 or newer",
        )
        return
    yield ok(ENGINE, _described(endpoint, version, info), subject=endpoint.url)
    yield from _engine_details(endpoint, info, platform)


def _described(endpoint: EngineEndpoint, version: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    name = "Podman" if endpoint.kind == "podman" else "Docker"
    kinds = dict(item for item in info.get("DriverStatus") or () if len(item) == 2)
    containerd = str(kinds.get("driver-type", "")).startswith("io.containerd.snapshotter")
    store = "containerd image store" if containerd else "classic image store"
    return (
        f"{name} {version.get('Version')}, API {version.get('ApiVersion')}, {info.get('Driver')}"
        f"{'' if endpoint.kind == 'podman' else ', ' + store}"
    )


def _engine_details(
    endpoint: EngineEndpoint, info: Mapping[str, Any], platform: Platform
) -> Iterator[Finding]:
    from lockbuild.sandbox.docker import Docker

    machine = str(info.get("Architecture", ""))
    try:
        theirs = Platform.of_machine(machine) if machine not in ("amd64", "arm64") else f"linux/{machine}"
    except ValueError:
        theirs = machine
    if str(theirs) != str(platform):
        yield warning(
            ENGINE,
            f"it runs on {theirs}, and this machine is {platform}: builds there would be emulated, or fail",
            subject=endpoint.url,
            remedy="use an engine of this machine's architecture, or --backend bubblewrap",
        )
    if not Docker({}, endpoint=endpoint).guarantees.address_randomisation_off:
        yield warning(
            ENGINE,
            "its seccomp profile is one that its administrator chose: address randomisation stays on in builds",
            subject=endpoint.url,
            remedy="allow personality(2) with ADDR_NO_RANDOMIZE there, as containers/seccomp.json of lockbuild does",
        )
    root = Path(str(info.get("DockerRootDir") or "/nonexistent"))
    if endpoint.url.startswith("unix://") and root.is_dir():
        state = os.statvfs(root)
        free = state.f_bavail * state.f_frsize
        if free < 3 << 30:
            yield warning(
                ENGINE,
                f"{free / 1e9:.1f} GB free for its images; an environment with Emscripten takes 1.2 GB",
                subject=str(root),
                remedy="free some space there (`docker image prune -a`, `docker system df`)",
            )


def _no_engine(environ: Mapping[str, str]) -> Finding:
    if where := environ.get("DOCKER_HOST"):
        from lockbuild.config.urls import redact

        return warning(
            ENGINE,
            "no engine answers at DOCKER_HOST",
            subject=redact(where),
            remedy="start it, correct DOCKER_HOST, or unset that",
        )
    forbidden = _forbidden_socket()
    if forbidden is not None:
        return warning(
            ENGINE,
            "this user may not talk to the engine",
            subject=forbidden,
            remedy="add the user to the socket's group (mostly `usermod -aG docker USER`, then log in again), or run a "
            "rootless engine",
        )
    return warning(
        ENGINE,
        "no container engine answers; images cannot be loaded, builds can run in bubblewrap",
        remedy="start Docker (`systemctl start docker`) or Podman's socket (`systemctl --user start podman.socket`)",
    )


def _forbidden_socket() -> str | None:
    for path in ("/var/run/docker.sock", "/run/podman/podman.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(1)
            try:
                connection.connect(path)
            except PermissionError:
                return f"unix://{path}"
            except OSError:
                continue
    return None


def bubblewrap() -> Iterator[Finding]:
    """Whether bubblewrap can make a sandbox here: runs it, as a build would."""
    program = find_program()
    if program is None:
        yield warning(BUBBLEWRAP, "it is not installed", remedy=INSTALL)
        return
    failure = trial(program)
    if failure is not None:
        yield warning(BUBBLEWRAP, failure[0], subject=str(program), remedy=failure[1])
        return
    yield ok(BUBBLEWRAP, "it makes sandboxes here, with user namespaces", subject=str(program))
    if is_setuid(program):
        yield warning(
            BUBBLEWRAP,
            "it is setuid: address randomisation stays on in builds",
            subject=str(program),
            remedy="allow user namespaces to ordinary users and install bwrap without the setuid bit",
        )


def conclusion(findings: Iterable[Finding], wanted: Wanted) -> Finding:
    """Which sandbox builds would run in, from the findings of `engine` and `bubblewrap`."""
    usable = [
        found.check for found in findings if found.level == "ok" and found.check in (ENGINE, BUBBLEWRAP)
    ]
    names = {"docker": [ENGINE], "bubblewrap": [BUBBLEWRAP], "host": []}.get(wanted, [ENGINE, BUBBLEWRAP])
    if wanted == "host":
        return warning(
            "sandbox",
            "builds run on the host, without one; their results are never recorded",
            remedy="leave out --backend host",
        )
    chosen = next((name for name in names if name in usable), None)
    if chosen is None:
        return problem(
            "sandbox",
            "there is none: nothing can be derived, built or reproduced",
            status=ExitStatus.SANDBOX,
            remedy="do what is said for one of " + " and ".join(names)
            if len(names) > 1
            else f"see {names[0]}",
        )
    return ok("sandbox", "builds run in " + ("containers" if chosen == ENGINE else "bubblewrap"))
