"""What every isolating back-end does with commands and files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lockbuild.errors import BuildError, SandboxError
from lockbuild.model.environment import ReadOnlyInput
from tests.support.command import python_path
from tests.support.sandboxes import Sandbox, processes_with, shell, unique_sleep, wait_until


def test_exit_statuses(sandbox: Sandbox) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, "exit 0")[0] == 0
        assert shell(session, "exit 7")[0] == 7
        assert shell(session, "kill -TERM $$")[0] == 128 + 15
        assert session.run(["no-such-program"], cwd="/", variables={}, output=lambda data: None) == 127


def test_both_outputs_are_one_stream_in_order(sandbox: Sandbox) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    with sandbox.backend.session(sandbox.spec) as session:
        expected = "".join(f"out {i}\nerr {i}\n" for i in range(1, 10))
        assert shell(session, script) == (0, expected)


def test_output_comes_while_the_command_runs(sandbox: Sandbox) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        # The command ends only because its first line was seen: that is what makes the file it waits for.
        received: list[bytes] = []

        def on_output(data: bytes) -> None:
            received.append(data)
            if len(received) == 1:
                session.seed("/build/home", source)

        source = sandbox.spec.inputs[0].directory
        script = "echo first; while [ ! -e /build/home/main.c ]; do sleep 0.02; done; echo second"
        status = session.run(["sh", "-c", script], cwd="/", variables={}, output=on_output)
    assert (status, b"".join(received)) == (0, b"first\nsecond\n")


def test_no_byte_of_a_long_output_is_lost(sandbox: Sandbox) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        status, text = shell(session, "seq 1 200000")
        assert status == 0
        assert text == "".join(f"{number}\n" for number in range(1, 200001))
        for number in range(30):
            assert shell(session, f"echo {number}") == (0, f"{number}\n")


def test_variables_are_exactly_those_given(sandbox: Sandbox) -> None:
    values = {"EMPTY": "", "PATH": "/usr/bin", "TEXT": "two words\nand 'a' \"line\" $HOME ä"}
    said = bytearray()
    with sandbox.backend.session(sandbox.spec) as session:
        session.run(["env", "-0"], cwd="/", variables=values, output=said.extend)
    expected = {**sandbox.spec.environment.variables, **sandbox.spec.variables, **values}
    found = dict(item.split("=", 1) for item in said.decode().rstrip("\0").split("\0"))
    assert found == expected


def test_writable_directories_last_for_the_session_and_no_longer(sandbox: Sandbox) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, "echo kept > kept; echo t > /tmp/t")[0] == 0
        assert shell(session, "cat kept /tmp/t") == (0, "kept\nt\n")
    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, "ls -A /build/build /build/home /tmp | grep -v :") == (0, "\n\n")


def test_what_runs_in_the_background_ends_with_its_command(sandbox: Sandbox) -> None:
    seconds = unique_sleep()
    with sandbox.backend.session(sandbox.spec) as session:
        script = f"sleep {seconds} >/dev/null 2>&1 & (setsid sleep {seconds} >/dev/null 2>&1 &); echo done"
        assert shell(session, script) == (0, "done\n")
        wait_until(lambda: not processes_with(seconds), 5)


def test_an_interrupted_command_leaves_nothing(sandbox: Sandbox) -> None:
    seconds = unique_sleep()

    def interrupt(data: bytes) -> None:
        assert processes_with(seconds)
        raise KeyboardInterrupt

    def build() -> None:
        script = f"setsid sleep {seconds} & sleep 0.1; echo started; sleep {seconds}"
        with sandbox.backend.session(sandbox.spec) as session:
            session.run(["sh", "-c", script], cwd="/", variables={}, output=interrupt)

    with pytest.raises(KeyboardInterrupt):
        build()
    assert processes_with(seconds) == []


def test_no_network_reaches_even_this_machine(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with sandbox.backend.session(sandbox.spec) as session:
            assert shell(session, f"echo hello | nc -w 2 127.0.0.1 {port}")[0] != 0
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        # The server would have been reached from outside.
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()


def test_loopback_works(sandbox: Sandbox) -> None:
    script = "(echo hello | nc -l -p 8080 &) ; sleep 0.3; nc -w 2 127.0.0.1 8080 </dev/null"
    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, script) == (0, "hello\n")


def test_inputs_cannot_be_changed(sandbox: Sandbox) -> None:
    source = sandbox.spec.inputs[0].directory
    before = sorted((path.name, path.lstat().st_mode, path.lstat().st_mtime) for path in source.rglob("*"))
    with sandbox.backend.session(sandbox.spec) as session:
        script = "rm -rf $SOURCE/*; echo x > $SOURCE/main.c; chmod 777 $SOURCE; mv $SOURCE/main.c /tmp; touch $SOURCE/a"
        assert shell(session, script)[0] != 0
        assert shell(session, "cat $SOURCE/main.c") == (0, "int main(){}\n")
    assert before == sorted(
        (path.name, path.lstat().st_mode, path.lstat().st_mtime) for path in source.rglob("*")
    )


def test_mounts_may_lie_anywhere(sandbox: Sandbox, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    (extra / "deep").mkdir(parents=True)
    (extra / "deep/file").write_text("extra\n")
    spec = replace(
        sandbox.spec,
        inputs=(*sandbox.spec.inputs, ReadOnlyInput(extra, "/build/sources/extra")),
        writable=(*sandbox.spec.writable, "/opt/derived", "/var/tmp/cache"),
    )
    with sandbox.backend.session(spec) as session:
        script = """
            cat /build/sources/extra/deep/file
            touch /opt/derived/x /var/tmp/cache/x && echo written
            (: > /opt/x) 2>/dev/null || echo /opt is read-only
            (: > /opt/tool/x) 2>/dev/null || echo /opt/tool is read-only
            (: > /var/lib/x) 2>/dev/null || echo /var/lib is read-only
            ls /opt /var
        """
        assert shell(session, script)[1].split("\n") == [
            "extra",
            "written",
            "/opt is read-only",
            "/opt/tool is read-only",
            "/var/lib is read-only",
            "/opt:",
            "derived",
            "tool",
            "",
            "/var:",
            "lib",
            "tmp",
            "",
        ]


def test_export_everything(sandbox: Sandbox, tmp_path: Path) -> None:
    script = """
        mkdir -p a/empty 'b c' && echo 1 > a/one && echo 2 > 'b c/zwei ü' && chmod 755 'b c/zwei ü'
        ln -s ../a/one 'b c/link' && ln -s /etc/passwd absolute && ln -s ./a/ tidy && ln a/one hard && mkfifo fifo
        chmod 600 a/one && ln -s a through
    """
    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, script) == (0, "")
        session.export("/build/build", tmp_path / "out")
        session.export("/build/build/a", tmp_path / "part")
    out = tmp_path / "out"
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))
    assert names == [
        *("a", "a/empty", "a/one", "absolute", "b c", "b c/link", "b c/zwei ü", "hard", "through", "tidy")
    ]
    targets = [os.readlink(out / name) for name in ("absolute", "b c/link", "tidy", "through")]
    assert targets == ["/etc/passwd", "../a/one", "./a/", "a"]
    assert (out / "a/one").read_text() == (out / "hard").read_text() == "1\n"
    assert (out / "a/one").stat().st_mode & 0o7777 == 0o644
    assert (out / "b c/zwei ü").stat().st_mode & 0o7777 == 0o755
    assert (out / "a/empty").is_dir()
    assert sorted(path.name for path in (tmp_path / "part").iterdir()) == ["empty", "one"]


def test_export_what_is_selected(sandbox: Sandbox, tmp_path: Path) -> None:
    script = """
        mkdir -p out skipped && echo js > out/a.js && echo o > out/a.o && ln out/a.o zz-hard.js
        ln -s out/a.js link && ln -s /etc dir && echo no > skipped/b.txt
    """
    asked: list[str] = []

    def select(path: str) -> bool:
        asked.append(path)
        return path.endswith(".js")

    with sandbox.backend.session(sandbox.spec) as session:
        assert shell(session, script) == (0, "")
        session.export("/build/build", tmp_path / "out", select=select)
        assert shell(session, "ln -s out/a.js link.js; mkfifo fifo.js") == (0, "")
        with pytest.raises(BuildError) as caught:
            session.export("/build/build", tmp_path / "refused", select=select)
    # A link is no regular file, and would lead anywhere: to leave it out in silence would lose an output.
    assert "link.js (a symbolic link to out/a.js)" in str(caught.value)
    assert "fifo.js (a fifo, socket or device)" in str(caught.value)
    found = sorted(path for path in (tmp_path / "out").rglob("*") if not path.is_dir())
    # A hard link is a regular file, also one to what is not wanted.
    assert [path.relative_to(tmp_path / "out").as_posix() for path in found] == ["out/a.js", "zz-hard.js"]
    assert found[1].read_text() == "o\n"
    assert not (tmp_path / "out/skipped").exists()
    assert {"out/a.js", "out/a.o", "skipped/b.txt", "zz-hard.js"} <= set(asked)


def test_seed_is_what_export_gives(sandbox: Sandbox, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    (seed / "d/empty").mkdir(parents=True)
    (seed / "d/f").write_text("x")
    (seed / "d/f").chmod(0o700)
    (seed / ("n" * 120)).write_bytes(b"long" * 100000)
    (seed / "l").symlink_to("t" * 150)
    with sandbox.backend.session(sandbox.spec) as session:
        session.seed("/build/home", seed)
        assert shell(session, "cd ~; stat -c '%n %u:%g %a' d d/f; rm d/f && echo y > d/f && cat d/f") == (
            0,
            "d 1000:1000 755\nd/f 1000:1000 755\ny\n",
        )
        session.export("/build/home", tmp_path / "out")
    out = tmp_path / "out"
    assert sorted(p.relative_to(out) for p in out.rglob("*")) == sorted(
        p.relative_to(seed) for p in seed.rglob("*")
    )
    assert (out / ("n" * 120)).read_bytes() == b"long" * 100000
    assert (out / "l").readlink() == Path("t" * 150)


def test_a_directory_that_is_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    with sandbox.backend.session(sandbox.spec) as session:
        with pytest.raises(SandboxError):
            session.run(["true"], cwd="/no/such/place", variables={}, output=lambda data: None)
        with pytest.raises(SandboxError):
            session.export("/build/build/absent", tmp_path / "out")


def test_interactive_has_the_terminal(sandbox: Sandbox) -> None:
    import pty

    leader, follower = pty.openpty()
    saved = [os.dup(number) for number in range(3)]
    try:
        for number in range(3):
            os.dup2(follower, number)
        with sandbox.backend.session(sandbox.spec) as session:
            script = "test -t 0 && test -t 1 && echo terminal; id -u; umask; echo $TERM; exit 9"
            status = session.interactive(["sh", "-c", script], cwd="/tmp", variables={"TERM": "vt100"})
    finally:
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)
        os.close(follower)
    said = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert status == 9
    assert said.split() == ["terminal", "1000", "0022", "vt100"]


ON_A_TERMINAL = """
import fcntl, sys, termios
from pathlib import Path
from lockbuild.cli.signals import Signals
from lockbuild.events import silent
from lockbuild.sandbox.bubblewrap import Bubblewrap
from lockbuild.sandbox.host import Host
from tests.support.busybox import make_spec
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
Signals().listen()
work = Path(sys.argv[2])
backend = Host(work / "scratch", report=silent) if sys.argv[1] == "host" else Bubblewrap(work / "scratch")
with backend.session(make_spec(work)) as session:
    status = session.interactive(sys.argv[3:], cwd="/tmp", variables={})
print("settings", termios.tcgetattr(0)[3] & termios.ECHO != 0, list(Path(work / "scratch").iterdir()), "status", status)
"""


class OnATerminal:
    """A command on a terminal of 24 lines and 80 columns, whose keys and screen the test has."""

    def __init__(self, backend: str, work: Path, *command: str) -> None:
        import termios

        self._leader, follower = os.openpty()
        termios.tcsetwinsize(follower, (24, 80))
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, backend, str(work), *command],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            env={**os.environ, **python_path()},
        )
        os.close(follower)
        self._shown = bytearray()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._leader, 1 << 16):
                self._shown += data

    def wait_for(self, text: str) -> None:
        try:
            wait_until(lambda: text in self._shown.decode().replace("\r\n", "\n"), 20)
        except BaseException:
            self._process.kill()  # nobody comes to close it
            raise

    def press(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def resize(self, lines: int) -> None:
        import termios

        termios.tcsetwinsize(self._leader, (lines, 80))

    def close(self) -> int:
        """The status of the command."""
        try:
            assert self._process.wait(20) == 0, self._shown
        finally:
            self._process.kill()
            self._process.wait()
            self._reading.join()
            os.close(self._leader)
        said, _, status = self._shown.decode().rpartition(" status ")
        assert said.endswith("settings True []"), said
        return int(status)


TRAP = "trap 'echo caught; exit 9' {}; echo ready; while :; do sleep 0.1; done"


@pytest.mark.parametrize("backend", ["bubblewrap", "host"])
@pytest.mark.parametrize(("key", "name"), [("\x03", "INT"), ("\x1c", "QUIT")])
def test_an_interrupt_from_a_terminal_is_the_commands(
    tmp_path: Path, backend: str, key: str, name: str
) -> None:
    command = OnATerminal(backend, tmp_path, "sh", "-c", TRAP.format(name))
    command.wait_for("ready\n")
    command.press(key)
    command.wait_for("caught\n")
    assert command.close() == 9


@pytest.mark.parametrize("backend", ["bubblewrap", "host"])
def test_an_interrupt_from_a_terminal_ends_what_does_not_handle_it(tmp_path: Path, backend: str) -> None:
    command = OnATerminal(backend, tmp_path, "sh", "-c", "echo ready; exec sleep 60")
    command.wait_for("ready\n")
    time.sleep(0.2)
    command.press("\x03")
    assert command.close() == 128 + signal.SIGINT


def test_a_shell_on_a_terminal(tmp_path: Path) -> None:
    """Job control, and the window's size when it began and when it has changed."""
    command = OnATerminal("bubblewrap", tmp_path, "sh")
    try:
        command.wait_for("/tmp $ ")
        command.press("sleep 60\n")
        time.sleep(0.3)
        command.press("\x1a")
        command.wait_for("Stopped")
        command.press("stty size\n")
        command.wait_for("\n24 80\n")
        command.resize(31)
        command.press("sleep 0.3; stty size\n")
        command.wait_for("\n31 80\n")
    finally:
        command.press("\x15exit 3\n")
        time.sleep(0.2)
        command.press("\x15exit 3\n")
        status = command.close()
    assert status == 3


def test_more_is_typed_than_a_command_reads_at_once(tmp_path: Path) -> None:
    command = OnATerminal("bubblewrap", tmp_path, "sh", "-c", "echo ready; sleep 0.4; wc -c")
    command.wait_for("ready\n")
    command.press(("x" * 79 + "\n") * 40)
    command.press("\x04")
    command.wait_for("\n3200\n")
    assert command.close() == 0
