"""When the profile is used, and that its file is in order. What it allows: tests/functional/test_fixed_addresses.py."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest

from lockbuild.sandbox.docker import Docker
from lockbuild.sandbox.seccomp import engine_filter, profile_file, security_option
from lockbuild.transport.engine import EngineEndpoint, EngineKind
from tests.support.http_server import Server, serving


def endpoint(server: Server, kind: EngineKind) -> EngineEndpoint:
    return EngineEndpoint(f"tcp://{urlsplit(server.url).netloc}", kind)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["name=apparmor", "name=seccomp,profile=default"], "built-in"),
        (["name=seccomp,profile=builtin", "name=rootless"], "built-in"),
        (["name=seccomp,profile=/etc/docker/strict.json"], "chosen"),
        (["name=seccomp,profile=unconfined"], "none"),
        (["name=cgroupns"], "none"),
        (None, "none"),
    ],
)
def test_what_docker_says(options: list[str] | None, expected: str) -> None:
    with serving() as server:
        server.add("/v1.41/info", json.dumps({"SecurityOptions": options}).encode())
        assert engine_filter(endpoint(server, "docker")) == expected
        backend = Docker({}, endpoint=endpoint(server, "docker"))
        assert backend.guarantees.address_randomisation_off == (expected != "chosen")


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ({"seccompEnabled": True, "seccompProfilePath": "/usr/share/containers/seccomp.json"}, "built-in"),
        ({"seccompEnabled": True, "seccompProfilePath": ""}, "built-in"),
        ({"seccompEnabled": True, "seccompProfilePath": "/etc/containers/seccomp.json"}, "chosen"),
        ({"seccompEnabled": False}, "none"),
    ],
)
def test_what_podman_says(security: dict[str, object], expected: str) -> None:
    with serving() as server:
        server.add("/v1.41/libpod/info", json.dumps({"host": {"security": security}}).encode())
        assert engine_filter(endpoint(server, "podman")) == expected


def test_docker_gets_the_text_and_podman_the_path() -> None:
    name, _, text = security_option(EngineEndpoint("unix:///x", "docker")).partition("=")
    assert name == "seccomp"
    assert json.loads(text) == json.loads(profile_file().read_text())
    assert security_option(EngineEndpoint("unix:///x", "podman")) == f"seccomp={profile_file()}"


def test_the_file_is_canonical() -> None:
    text = profile_file().read_text()
    profile = json.loads(text)
    assert text == json.dumps(profile, indent=2) + "\n"
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    for rule in profile["syscalls"]:
        assert rule["names"] == sorted(set(rule["names"]))
    whole = set(profile["syscalls"][0]["names"])
    assert not whole & {name for rule in profile["syscalls"][1:] for name in rule["names"]}
