"""The host back-end: loud, and without any promise."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lockbuild.errors import SandboxError
from lockbuild.events import Event, Note
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment, MountedTree, ReadOnlyInput, SandboxSpec
from lockbuild.model.platform import Platform
from lockbuild.sandbox.backend import Guarantees
from lockbuild.sandbox.host import Host


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    tool = tmp_path / "tool"
    (tool / "opt/tool/bin").mkdir(parents=True)
    (tool / "opt/tool/bin/greet").write_text("#!/bin/sh\necho hello\n")
    (tool / "opt/tool/bin/greet").chmod(0o755)
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("a\n")
    tree = MountedTree("tools.tool", Digest("0" * 64), "/opt/tool", tool)
    environment = Environment(
        Platform("linux", "amd64"), (tree,), {"PATH": "/opt/tool/bin:/usr/local/bin:/usr/bin:/bin"}
    )
    variables = {"SOURCE": "/build/source", "BUILD": "/build/build", "HOME": "/build/home"}
    return SandboxSpec(environment, (ReadOnlyInput(source, "/build/source"),), variables=variables)


def test_it_promises_nothing_and_says_so(spec: SandboxSpec, tmp_path: Path) -> None:
    events: list[Event] = []
    backend = Host(tmp_path / "scratch", report=events.append)
    assert backend.unavailable() is None
    assert backend.guarantees == Guarantees(False, False, False, False)
    assert not backend.guarantees.reproducible
    with backend.session(spec):
        (note,) = events
        assert isinstance(note, Note)
        assert note.level == "warning"
        assert "without a sandbox" in note.message
    assert list((tmp_path / "scratch").iterdir()) == []


def test_variables_lead_to_the_places(spec: SandboxSpec, tmp_path: Path) -> None:
    said = bytearray()
    with Host(tmp_path / "scratch", report=lambda event: None).session(spec) as session:
        script = """
            greet; cat $SOURCE/a; echo x > $SOURCE/a; pwd; mkdir -p lib && echo out > lib/file; umask
            echo "$FLAGS"; echo "$OTHER"; exit 3
        """
        status = session.run(
            ["sh", "-c", script],
            cwd="/build/build",
            variables={
                "FLAGS": "-ffile-prefix-map=/build/source=. -I/build/source/x:/build/build",
                "OTHER": "/build/sourcery /x/build/source",
            },
            output=said.extend,
        )
        session.export("/build/build", tmp_path / "out", select=lambda path: path == "lib/file")
    scratch = said.decode().splitlines()[2].removesuffix("/build/build")
    assert status == 3
    assert said.decode().splitlines() == [
        *("hello", "a", f"{scratch}/build/build", "0022"),
        f"-ffile-prefix-map={scratch}/build/source=. -I{scratch}/build/source/x:{scratch}/build/build",
        "/build/sourcery /x/build/source",
    ]
    assert (tmp_path / "out/lib/file").read_text() == "out\n"
    assert (tmp_path / "source/a").read_text() == "a\n", "the store was written to"


def test_statuses(spec: SandboxSpec, tmp_path: Path) -> None:
    with Host(tmp_path / "scratch", report=lambda event: None).session(spec) as session:
        killed = session.run(
            ["sh", "-c", "kill -9 $$"], cwd="/build/build", variables={}, output=lambda data: None
        )
        assert killed == 128 + 9
        with pytest.raises(SandboxError, match="no-such-program cannot be run"):
            session.run(["no-such-program"], cwd="/build/build", variables={}, output=lambda data: None)


def test_an_error_in_the_receiver_ends_the_command(spec: SandboxSpec, tmp_path: Path) -> None:
    pids: list[int] = []

    def output(data: bytes) -> None:
        pids.append(int(data))
        raise KeyboardInterrupt

    def build() -> None:
        with Host(tmp_path / "scratch", report=lambda event: None).session(spec) as session:
            code = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
            session.run([sys.executable, "-c", code], cwd="/build/build", variables={}, output=output)

    with pytest.raises(KeyboardInterrupt):
        build()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
