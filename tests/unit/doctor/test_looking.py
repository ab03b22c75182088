"""Nothing that hangs or fails keeps a doctor from telling the rest."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.doctor import machine, network, sandboxes
from lockbuild.doctor.finding import Finding, ok, warning
from lockbuild.doctor.parallel import Failed, in_parallel
from lockbuild.errors import ExitStatus
from lockbuild.events import silent
from lockbuild.sandbox.select import Wanted
from lockbuild.store import Store
from lockbuild.workflow.doctor import diagnose
from lockbuild.workflow.workspace import Workspace


def test_what_hangs_is_left_behind() -> None:
    never = threading.Event()

    def fails() -> str:
        raise RuntimeError("no")

    started = time.monotonic()
    done, hanging, failed = in_parallel([lambda: "done", lambda: str(never.wait(60)), fails], started + 0.3)
    assert time.monotonic() - started < 2
    never.set()
    assert done == "done"
    assert hanging == Failed(None)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RuntimeError)


def test_what_cannot_be_looked_at_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Finding]:
        raise RuntimeError("broken at https://someone:secret@host.invalid/x")

    def hanging() -> list[Finding]:
        time.sleep(30)
        return []

    monkeypatch.setattr(machine, "git", broken)
    monkeypatch.setattr(machine, "python", hanging)
    workspace = Workspace(Store(tmp_path), {}, silent, datetime.now(UTC), offline=True)
    started = time.monotonic()
    diagnosis = diagnose(workspace, None, limit=4)
    assert time.monotonic() - started < 4
    said = {finding.check: finding.message for finding in diagnosis.findings}
    assert said["python"] == "no answer within 2 s"
    assert said["git"] == "it could not be looked at: RuntimeError: broken at https://host.invalid/x"


ENGINE, BUBBLEWRAP = ok("engine", "Docker"), ok("bubblewrap", "works")
NO_ENGINE, NO_BUBBLEWRAP = warning("engine", "none"), warning("bubblewrap", "none")


@pytest.mark.parametrize(
    ("findings", "wanted", "message", "status"),
    [
        ([ENGINE, BUBBLEWRAP], "auto", "builds run in containers", ExitStatus.OK),
        ([NO_ENGINE, BUBBLEWRAP], "auto", "builds run in bubblewrap", ExitStatus.OK),
        ([ENGINE, BUBBLEWRAP], "bubblewrap", "builds run in bubblewrap", ExitStatus.OK),
        ([NO_ENGINE, BUBBLEWRAP], "docker", "there is none: ", ExitStatus.SANDBOX),
        ([NO_ENGINE, NO_BUBBLEWRAP], "auto", "there is none: ", ExitStatus.SANDBOX),
        ([NO_ENGINE, NO_BUBBLEWRAP], "host", "builds run on the host", ExitStatus.OK),
    ],
)
def test_which_sandbox_builds_run_in(
    findings: list[Finding], wanted: Wanted, message: str, status: ExitStatus
) -> None:
    found = sandboxes.conclusion(findings, wanted)
    assert found.message.startswith(message)
    assert found.status == status


def test_a_proxy_whose_name_is_none() -> None:
    (finding,) = network.proxies({"http_proxy": "http://user:secret@a..b:80"}, connect=True)
    assert finding.message == "nothing can be reached through it: it is no name of a host"
    assert "secret" not in str(finding)
