"""What holds for bubblewrap: fixed addresses, one death for all, no traces, and remedies that are true."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from lockbuild.descent import remove
from lockbuild.errors import BuildError, IntegrityError, SandboxError
from lockbuild.model.environment import ReadOnlyInput
from lockbuild.sandbox.bubblewrap import Bubblewrap
from tests.support.busybox import make_spec
from tests.support.sandboxes import Sandbox, processes_with, shell, unique_sleep, wait_until
from tests.support.users import ORDINARY, as_ordinary_user

ADDRESSES = r"grep -E '\[(stack|vdso|heap)\]' /proc/self/maps"

KILLED = """
import sys
from pathlib import Path
from lockbuild.sandbox.bubblewrap import Bubblewrap
from tests.support.busybox import make_spec
from tests.support.sandboxes import shell
work, seconds = Path(sys.argv[1]), sys.argv[2]
with Bubblewrap(work / "scratch").session(make_spec(work)) as session:
    shell(session, f"setsid sleep {seconds} & sleep {seconds}")
"""


def test_it_works_here(bubblewrap: Sandbox) -> None:
    assert bubblewrap.backend.unavailable() is None
    assert bubblewrap.backend.guarantees.reproducible
    assert bubblewrap.backend.guarantees.address_randomisation_off


def test_addresses_are_the_same_in_every_run(bubblewrap: Sandbox) -> None:
    plain = {subprocess.check_output(["sh", "-c", ADDRESSES]) for _ in range(3)}
    assert len(plain) > 1, "this machine does not randomise addresses: the test would show nothing"
    with bubblewrap.backend.session(bubblewrap.spec) as session:
        seen = {shell(session, ADDRESSES) for _ in range(3)}
    assert len(seen) == 1
    assert seen.pop()[0] == 0
    after = {subprocess.check_output(["sh", "-c", ADDRESSES]) for _ in range(3)}
    assert len(after) > 1, "the caller's own personality was changed"


def test_killing_the_caller_kills_all(tmp_path: Path) -> None:
    seconds = unique_sleep()
    caller = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), seconds])
    try:
        wait_until(lambda: len(processes_with(seconds)) >= 3)  # the caller, and both in the sandbox
    finally:
        caller.send_signal(signal.SIGKILL)
        caller.wait()
    wait_until(lambda: not processes_with(seconds))
    # What the killed one wrote is removed by the next session, but not that of one which lives.
    (left,) = (tmp_path / "scratch").iterdir()
    assert (left / "writable").is_dir()
    spec = make_spec(tmp_path / "next")
    backend = Bubblewrap(tmp_path / "scratch")
    with backend.session(spec) as first, backend.session(spec):
        assert not left.exists()
        assert len(list((tmp_path / "scratch").iterdir())) == 2
        assert shell(first, "touch x && ls") == (0, "x\n")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_no_file_descriptor_is_inherited(bubblewrap: Sandbox, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        with bubblewrap.backend.session(bubblewrap.spec) as session:
            status, text = shell(session, "for f in /proc/self/fd/*; do readlink $f; done; ls /proc/1/fd")
    assert status == 0
    assert "secret" not in text
    assert "json" not in text
    assert len([line for line in text.splitlines() if line.startswith("pipe:")]) == 2


def test_nothing_remains_whatever_modes_a_build_left(tmp_path: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="lb-user-"))
    script = (
        "mkdir -p a/b c && touch a/b/f c/f && chmod 000 a/b/f a/b a c/f && chmod 500 c && chmod 000 ../home"
    )

    def build() -> list[str]:
        with Bubblewrap(work / "scratch").session(spec) as session:
            status, said = shell(session, script)
            session.export("/build/build", work / "out")
        out = work / "out"
        exported = sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))
        return [str(status), said, *exported, *map(str, (work / "scratch").iterdir())]

    try:
        spec = make_spec(work)
        os.chown(work, ORDINARY, ORDINARY)
        found = as_ordinary_user(build) if os.geteuid() == 0 else build()
        assert found == ["0", "", "a", "a/b", "a/b/f", "c", "c/f"]
    finally:
        shutil.rmtree(work)


def test_what_is_nested_without_end_is_no_obstacle(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """Deeper than a path may be long and than Python recurses. A killed run may leave the same."""
    down = "i=0; while [ $i -lt 1200 ]; do mkdir d; cd d; i=$((i+1)); done"
    lower = f"mkdir ~/lower; cd ~/lower; {down}; echo deep > deep.txt"
    script = f"{lower}; cd $BUILD; {down}; mv ~/lower .; cd ~"
    with bubblewrap.backend.session(bubblewrap.spec) as session:
        assert shell(session, f"echo hi > out.txt; {script}") == (0, "")
        session.export("/build/build", tmp_path / "out", select=lambda path: path == "out.txt")
        with pytest.raises(BuildError, match="nested too deep"):
            session.export("/build/build", tmp_path / "deep", select=lambda path: path.endswith("/deep.txt"))
        with pytest.raises(BuildError, match="nested too deep"):
            session.export("/build/build", tmp_path / "all")
        (left,) = (tmp_path / "scratch").iterdir()
        left.rename(tmp_path / "sandbox-left")
        left.mkdir()
    remove(tmp_path / "all")
    (tmp_path / "sandbox-left").rename(tmp_path / "scratch/sandbox-left")
    assert (tmp_path / "out/out.txt").read_text() == "hi\n"
    with bubblewrap.backend.session(bubblewrap.spec) as session:
        assert shell(session, "echo works") == (0, "works\n")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_any_number_of_descriptors_may_be_open(bubblewrap: Sandbox) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("no more than 1024 descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with bubblewrap.backend.session(bubblewrap.spec) as session:
            assert shell(session, "echo works") == (0, "works\n")
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nothing_remains_after_an_error(bubblewrap: Sandbox, tmp_path: Path) -> None:
    class MarkerError(Exception):
        pass

    def fail() -> None:
        with bubblewrap.backend.session(bubblewrap.spec) as session:
            shell(session, "mkdir x")
            raise MarkerError

    with pytest.raises(MarkerError):
        fail()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_links_in_a_build_directory_lead_nowhere(bubblewrap: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("secret")
    with bubblewrap.backend.session(bubblewrap.spec) as session:
        assert shell(session, f"ln -s {tmp_path}/private dir; ln -s {tmp_path}/private/key file")[0] == 0
        session.export("/build/build", tmp_path / "out", select=lambda path: False)
        with pytest.raises(BuildError, match="a symbolic link to"):
            session.export("/build/build", tmp_path / "out", select=lambda path: True)
        with pytest.raises(SandboxError):
            session.export("/build/build/dir", tmp_path / "out")
        with pytest.raises(SandboxError):
            session.export("/build/build/../../..", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_mount_where_there_is_no_place(bubblewrap: Sandbox, tmp_path: Path) -> None:
    inside = ReadOnlyInput(tmp_path, "/build/source/absent")
    spec = replace(bubblewrap.spec, inputs=(*bubblewrap.spec.inputs, inside))
    with pytest.raises(SandboxError, match="/build/source has no such directory"):
        bubblewrap.backend.session(spec).__enter__()


@pytest.mark.parametrize("link", ["opt/tool", "opt"])
def test_a_link_at_a_mount_lets_nothing_of_the_host_in(tmp_path: Path, link: str) -> None:
    spec = make_spec(tmp_path)
    tool = spec.environment.trees[1].root
    (tool / "opt").rename(tmp_path / "secret")
    (tool / link).parent.mkdir(exist_ok=True)
    (tool / link).symlink_to(tmp_path / ("secret/tool" if link == "opt/tool" else "secret"))
    with (
        pytest.raises(IntegrityError, match="has no directory /opt/tool, or a link leads there"),
        Bubblewrap(tmp_path / "scratch").session(spec),
    ):
        pass


@pytest.mark.parametrize("target", ["/usr/bin/busybox", "/opt/tool/bin/env"])
def test_env_may_be_an_absolute_link(tmp_path: Path, target: str) -> None:
    """It leads to nothing on this machine, or to something else."""
    spec = make_spec(tmp_path)
    base, tool = (tree.root for tree in spec.environment.trees)
    shutil.copy(base / "usr/bin/busybox", tool / "opt/tool/bin/env")
    (base / "usr/bin/busybox").rename(base / "usr/bin/lb-busybox")
    target = target.replace("/usr/bin/busybox", "/usr/bin/lb-busybox")
    for program in (base / "usr/bin").iterdir():
        if program.is_symlink():
            program.unlink()
            program.symlink_to(target if program.name == "env" else "lb-busybox")
    with Bubblewrap(tmp_path / "scratch").session(spec) as session:
        assert shell(session, "echo works") == (0, "works\n")


def test_a_base_without_env(bubblewrap: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    base = replace(bubblewrap.spec.environment.trees[0], root=tmp_path / "empty")
    spec = replace(bubblewrap.spec, environment=replace(bubblewrap.spec.environment, trees=(base,)))
    with pytest.raises(SandboxError, match="the environment has no /usr/bin/env"):
        bubblewrap.backend.session(spec).__enter__()


def test_a_bwrap_that_may_not_make_namespaces(tmp_path: Path) -> None:
    # A process that already used up its right to make user namespaces is refused as a locked-down machine does.
    refused = subprocess.run(
        [
            *("bwrap", "--unshare-user", "--disable-userns", "--bind", "/", "/", "--dev", "/dev"),
            *("--proc", "/proc", "--", sys.executable, "-c"),
            "from lockbuild.sandbox.bubblewrap import Bubblewrap; from pathlib import Path;"
            f"print(Bubblewrap(Path({str(tmp_path)!r})).unavailable())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert refused.stdout.startswith("bubblewrap cannot make a sandbox here (bwrap: ")
    assert "namespace" in refused.stdout


def test_a_program_that_is_no_bwrap(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bubblewrap 0.4.1'; test \"$1\" = --version\n")
    program.chmod(0o755)
    assert "is version 0.4, too old" in (Bubblewrap(tmp_path, program=program).unavailable() or "")
    program.write_text("#!/bin/sh\necho 'bubblewrap 0.9.0'; echo broken >&2; exit 3\n")
    assert "(bubblewrap 0.9.0\nbroken)" in (Bubblewrap(tmp_path, program=program).unavailable() or "")
    program.chmod(0o644)
    assert "cannot be run" in (Bubblewrap(tmp_path, program=program).unavailable() or "")
