"""Being killed, interrupted and crowded: whatever the moment, the next command finds nothing that it must not trust."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.engine import PrivateEngine
from tests.support.http_server import Behaviour, Handler
from tests.support.processes import left_behind, mounts_below, running
from tests.support.tiny import TinyWorld


def drip(seconds: float, pieces: int = 40) -> Behaviour:
    """Serve well (a range, too), but slowly."""

    def behave(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        start, end = handler.wanted(len(data))
        headers = {"ETag": '"same"'}
        if start is not None:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        data = data[start or 0 : end]
        handler.head(206 if start is not None else 200, len(data), headers)
        for piece in range(pieces):
            handler.send(data[len(data) * piece // pieces : len(data) * (piece + 1) // pieces])
            time.sleep(seconds / pieces)

    return behave


def slow_downloads(world: TinyWorld, seconds: float) -> None:
    for path in world.server.files:
        if "/pool/" in path:
            world.server.script[path] = [drip(seconds)] * 4


def slow_derivation(world: TinyWorld, mark: str, seconds: float) -> None:
    """A step that has the mark in its text, and takes its time."""
    first = f"mkdir -p $OUT; : {mark}; sleep {seconds}; echo half > $OUT/half"
    second = "sleep 0.1; rm $OUT/half; cat /usr/share/greeting | tr a-z A-Z"
    world.edit("toolchain.toml", "mkdir -p $OUT", first)
    world.edit("toolchain.toml", "cat /usr/share/greeting | tr a-z A-Z", second)
    world.run("lock")


def slow_build(world: TinyWorld, mark: str) -> None:
    world.edit("lockbuild.toml", "mkdir lib;", f"echo ready; : {mark}; sleep 60 & sleep 60; mkdir lib;")


@pytest.fixture
def fresh(shared: TinyWorld, tmp_path: Path) -> TinyWorld:
    """A project with an empty store."""
    shared.shared_store = tmp_path / "fresh"
    return shared


def is_sound(world: TinyWorld) -> None:
    """The next sync works, all that is in the store is what it says, and whoever writes next sweeps."""
    world.run("sync")
    world.run("store", "verify")
    world.run("build")
    assert left_behind(world.store) == []


UNDER_WAY = (None, "partial/*", "tmp/*", "work/sandbox-*")
"""What a kill waits for, so that it meets each kind of work however busy the machine is; None: any moment."""


@pytest.mark.slow
def test_kill_at_twenty_random_moments_of_a_sync(fresh: TinyWorld) -> None:
    """Every second time the store is new; the others go on with what a killed sync and a whole one have left."""
    mark = os.urandom(8).hex()
    slow_derivation(fresh, mark, 0.3)
    slow_downloads(fresh, 0.3)
    began = time.monotonic()
    fresh.run("sync")
    whole = time.monotonic() - began
    chance = random.Random(20261130)
    seen: set[str] = set()
    for turn in range(20):
        if turn % 2 == 0:
            fresh.shared_store = fresh.directory / f"fresh-{turn}"
        else:
            for path in (*fresh.store.glob("trees/sha256/*"), *fresh.store.glob("blobs/sha256/*")):
                if chance.random() < 0.7:
                    subprocess.run(["rm", "-rf", path], check=True)
        slow_downloads(fresh, 0.3)
        with running(fresh, "sync", mark=mark) as command:
            pattern = UNDER_WAY[turn // 2 % len(UNDER_WAY)]
            if pattern is None:
                time.sleep(whole * chance.random())
            else:
                while command.process.poll() is None and not any(fresh.store.glob(pattern)):
                    time.sleep(0.001)
                time.sleep(0.3 * chance.random() if turn // 2 >= len(UNDER_WAY) else 0)
            command.signal(signal.SIGKILL)
            command.wait()
        seen |= {path.relative_to(fresh.store).parts[0] for path in left_behind(fresh.store)}
        fresh.server.script.clear()
        is_sound(fresh)
        # A bwrap that was not yet bound to the life of who started it ends with the next command.
        assert command.survivors() == []
        assert mounts_below(fresh.store) == []
    assert {"partial", "tmp"} <= seen, "the kills met downloads and trees under way"
    fresh.run("lock", "--materialise")
    fresh.run("reproduce", "--record")


@pytest.mark.slow
def test_end_at_random_moments_of_a_sync(fresh: TinyWorld) -> None:
    """SIGTERM, which is answered, also in the middle of an import or of a callback from a library."""
    mark = os.urandom(8).hex()
    slow_derivation(fresh, mark, 0.3)
    chance = random.Random(7)
    statuses = set()
    for turn in range(8):
        fresh.shared_store = fresh.directory / f"fresh-{turn}"
        slow_downloads(fresh, 0.3)
        with running(fresh, "sync", mark=mark) as command:
            time.sleep(0.25 + 1.2 * (turn + chance.random()) / 8)
            command.signal(signal.SIGTERM)
            status = command.wait()
            statuses.add(status)
            assert status in (0, 130, -signal.SIGTERM), command.said
            assert command.survivors(0.2) == []
        if status == 130:
            assert "error: interrupted" in command.said
            assert "Traceback" not in command.said
        fresh.server.script.clear()
        is_sound(fresh)
    assert 130 in statuses


SIGNALS = [
    pytest.param(signal.SIGTERM, False, id="SIGTERM"),
    pytest.param(signal.SIGINT, False, id="SIGINT"),
    pytest.param(signal.SIGINT, True, id="Ctrl-C"),
]


@pytest.mark.parametrize(("number", "group"), SIGNALS)
def test_interrupted_while_it_downloads(fresh: TinyWorld, number: int, group: bool) -> None:
    path = next(path for path in fresh.server.files if "/busybox_" in path)
    half, go_on = threading.Event(), threading.Event()

    def wait_halfway(handler: Handler) -> None:
        data = handler.data()
        assert data is not None
        handler.head(200, len(data), {"ETag": '"same"'})
        handler.send(data[: len(data) // 2])
        half.set()
        go_on.wait(30)

    fresh.server.script[path] = [wait_halfway]
    with running(fresh, "sync") as command:
        assert half.wait(30)
        time.sleep(0.2)
        began = time.monotonic()
        command.signal(number, group=group)
        assert command.wait() == 130
        assert time.monotonic() - began < 20
        go_on.set()
        assert "error: interrupted" in command.said
        assert "Traceback" not in command.said
        assert command.survivors(1) == []
    kept = [path.stat().st_size for path in fresh.store.glob("partial/*")]
    assert kept, "what has come is kept"
    assert max(kept) > 100_000
    assert list(fresh.store.glob("tmp/*")) == []
    before = len(fresh.server.requests)
    is_sound(fresh)
    ranges = [
        request.headers.get("range") for request in fresh.server.requests[before:] if request.path == path
    ]
    assert ranges == [f"bytes={max(kept)}-"], "and gone on from"


@pytest.mark.parametrize(("number", "group"), SIGNALS)
def test_interrupted_while_it_derives(shared: TinyWorld, number: int, group: bool) -> None:
    mark = os.urandom(8).hex()
    shared.edit(
        "toolchain.toml", '"mkdir -p $OUT"', f'"mkdir -p $OUT; echo ready; : {mark}; sleep 60 & sleep 60"'
    )
    shared.run("lock")
    with running(shared, "sync", mark=mark) as command:
        command.wait_until_it_says("\nready\n")
        command.signal(number, group=group)
        assert command.wait(10) == 130
        assert "error: interrupted" in command.said
        assert "Traceback" not in command.said
        assert command.survivors(0) == []
    assert left_behind(shared.store) == []
    assert mounts_below(shared.store) == []


@pytest.mark.parametrize("verb", ["build", "reproduce"])
@pytest.mark.parametrize(("number", "group"), SIGNALS)
def test_interrupted_while_it_builds(shared: TinyWorld, number: int, group: bool, verb: str) -> None:
    shared.run("build")
    before = (shared.project / "dist/out.txt").read_bytes()
    mark = os.urandom(8).hex()
    slow_build(shared, mark)
    with running(shared, verb, mark=mark) as command:
        command.wait_until_it_says("\nready\n")
        command.signal(number, group=group)
        assert command.wait(10) == 130
        assert "error: interrupted" in command.said
        assert "Traceback" not in command.said
        assert command.survivors(0) == []
    assert left_behind(shared.store) == []
    assert (shared.project / "dist/out.txt").read_bytes() == before
    assert sorted(os.listdir(shared.project)) == sorted(
        [".lockbuild", "dist", "lockbuild.lock", "lockbuild.toml", "main.txt", "toolchain.toml"]
    )


def test_an_interruption_while_code_is_made_ends_like_any_other(shared: TinyWorld, tmp_path: Path) -> None:
    """Python ends itself by SIGINT if a KeyboardInterrupt has ever left a string that it executed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, lockbuild.workflow.workspace as w\n"
        "w.Workspace.close = lambda self: exec('os.kill(os.getpid(), signal.SIGINT)', {'os': os, 'signal': signal})\n"
    )
    path = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    shared.extra_environ["PYTHONPATH"] = path
    with running(shared, "store", "stats", "--json") as command:
        assert command.wait() == 130
    assert '"status": 130' in command.printed


def test_interrupted_again_and_again(shared: TinyWorld) -> None:
    """An impatient person."""
    mark = os.urandom(8).hex()
    slow_build(shared, mark)
    with running(shared, "build", mark=mark) as command:
        command.wait_until_it_says("\nready\n")
        for _ in range(4):
            command.signal(signal.SIGINT, group=True)
            time.sleep(0.003)
        # Python gives signals back to the system while it ends; a shell says 130 of both.
        assert command.wait(10) in (130, -signal.SIGINT), command.said
        assert command.said.endswith("error: interrupted\n")
        assert "Traceback" not in command.said
        assert command.survivors(0) == []
    assert left_behind(shared.store) == []
    shared.edit("lockbuild.toml", "sleep 60 & sleep 60; ", "")
    shared.run("build")


def test_interrupted_again_as_putting_away_takes_too_long(shared: TinyWorld, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time, lockbuild.workflow.workspace as w\n"
        "w.Workspace.close = lambda self: (sys.stderr.write('putting away\\n'), sys.stderr.flush(), time.sleep(60))\n"
    )
    shared.extra_environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    mark = os.urandom(8).hex()
    slow_build(shared, mark)
    with running(shared, "build", mark=mark) as command:
        command.wait_until_it_says("\nready\n")
        command.signal(signal.SIGINT, group=True)
        command.wait_until_it_says("putting away")
        limit = time.monotonic() + 20
        while command.process.poll() is None and time.monotonic() < limit:
            command.signal(signal.SIGTERM)
            time.sleep(0.2)
        assert command.wait(1) == 130
        assert "interrupted again" in command.said
        assert "Traceback" not in command.said
        assert command.survivors() == []


def test_an_interruption_that_python_drops_comes_again(shared: TinyWorld, tmp_path: Path) -> None:
    """What is raised in a __del__ or in a callback of a weak reference goes nowhere."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, time, lockbuild.workflow.workspace as w\n"
        "class Interrupting:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "w.Workspace.close = lambda self: (Interrupting() is None, time.sleep(60))\n"
    )
    shared.extra_environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    with running(shared, "store", "stats") as command:
        assert command.wait(30) == 130
        assert command.said == "error: interrupted\n"


@pytest.mark.parametrize("package", ["sandbox.scratch", "store.staging"])
@pytest.mark.parametrize("moment", ["remove", "completed"])
def test_interrupted_while_it_puts_away(shared: TinyWorld, tmp_path: Path, package: str, moment: str) -> None:
    """The first signal, not one after another: nothing is left for the next command."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, signal, lockbuild.{package} as m, lockbuild.interrupts as i\n"
        "came = []\n"
        f"before = m.{moment}\n"
        "def interrupted(what):\n"
        "    if not came:\n"
        "        came.append(True)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    before(what)\n"
        "deferred = i.deferred\n"
        "def once():\n"
        "    i.deferred = deferred\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "def completed(work):\n"
        "    if not came:\n"
        "        came.append(True)\n"
        "        i.deferred = once\n"
        "    before(work)\n"
        f"m.{moment} = {'interrupted' if moment == 'remove' else 'completed'}\n"
    )
    shared.extra_environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    with running(shared, "build") as command:
        assert command.wait(30) == 130
        assert command.said.endswith("error: interrupted\n")
        assert "Traceback" not in command.said
    assert left_behind(shared.store) == []


def test_interrupted_while_its_result_is_told(shared: TinyWorld, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, lockbuild.cli.result as r\n"
        "before = r.print_error\n"
        "def told(error, *, as_json):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    before(error, as_json=as_json)\n"
        "r.print_error = told\n"
    )
    shared.extra_environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    with running(shared, "store", "path", "nothing-of-this-name") as command:
        assert command.wait() == 130
        assert command.said == "error: interrupted\n"


def test_killed_while_it_builds(shared: TinyWorld) -> None:
    mark = os.urandom(8).hex()
    slow_build(shared, mark)
    with running(shared, "build", mark=mark) as command:
        command.wait_until_it_says("\nready\n")
        assert len(command.processes()) >= 4, "itself, bwrap, the shell and what that started"
        command.signal(signal.SIGKILL)
        command.wait()
        assert command.survivors() == [], "the sandbox dies with its parent"
    assert not (shared.project / "dist").exists()
    shared.edit("lockbuild.toml", "sleep 60 & sleep 60; ", "")
    shared.run("build")
    assert left_behind(shared.store) == []


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_while_it_builds_in_a_container(shared: TinyWorld, engine: PrivateEngine, number: int) -> None:
    def containers() -> str:
        done = subprocess.run(
            ["docker", "ps", "--all", "--quiet"],
            env={**os.environ, **engine.environ},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    mark = os.urandom(8).hex()
    slow_build(shared, mark)
    shared.extra_environ.update(engine.environ)
    with running(shared, "build", mark=mark, backend="docker") as command:
        command.wait_until_it_says("\nready\n", 120)
        assert containers()
        command.signal(number)
        assert command.wait(30) == (130 if number == signal.SIGTERM else -number)
        limit = time.monotonic() + 15
        while containers() and time.monotonic() < limit:
            time.sleep(0.1)
        assert containers() == ""
        assert command.survivors() == []
    shared.edit("lockbuild.toml", "sleep 60 & sleep 60; ", "")
    shared.run("build")
    assert left_behind(shared.store) == []


# Crowds


def at_once(world: TinyWorld, *commands: tuple[str, ...]) -> list[str]:
    """Run all of them together; each must succeed. What each said."""
    with ThreadPoolExecutor(len(commands)) as pool:
        return [result.err for result in pool.map(lambda command: world.run(*command), commands)]


@pytest.mark.parametrize("crowd", [2, 4])
def test_syncs_at_once_on_one_store(fresh: TinyWorld, crowd: int) -> None:
    slow_downloads(fresh, 0.3)
    before = len(fresh.server.requests)
    at_once(fresh, *[("sync",)] * crowd)
    fetched = [request.path for request in fresh.server.requests[before:]]
    assert len(fetched) == len(set(fetched)) == 2, "each file comes once"
    fresh.run("store", "verify")
    assert left_behind(fresh.store) == []
    assert fresh.run("sync", "--json").value["made"] == []
    fresh.run("reproduce")


def test_syncs_of_several_projects_and_collections_at_once(fresh: TinyWorld, tmp_path: Path) -> None:
    other = fresh.fork(tmp_path / "other")
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(world.run, "sync") for world in (fresh, other)]
        work += [pool.submit(fresh.run, "store", "gc") for _ in range(2)]
        for done in work:
            done.result()
    fresh.run("store", "verify")
    fresh.run("reproduce", "--offline")
    other.run("reproduce", "--offline")


def test_builds_at_once_of_one_project(shared: TinyWorld) -> None:
    at_once(shared, *[("build",)] * 3, ("reproduce",))
    assert (shared.project / "dist/out.txt").read_text() == "HELLO\nworld\n"
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=shared.project / "dist", check=True)
    log = (shared.project / ".lockbuild/logs/tiny.log").read_text()
    assert log.count("$ ") == 2, "the log of one of them, whole"
    assert left_behind(shared.store) == []
    assert [path.name for path in shared.project.iterdir() if path.name.startswith(".dist")] == []


def test_failing_builds_at_once_of_one_project(shared: TinyWorld) -> None:
    shared.edit("lockbuild.toml", "mkdir lib;", "echo half > made; false;")
    with ThreadPoolExecutor(3) as pool:
        for result in pool.map(lambda _: shared.run("build", status=6), range(3)):
            assert "enter the sandbox as this left it" in result.err
    assert os.listdir(shared.project / ".lockbuild/failed") == ["tiny"]
    assert shared.run("run", "--failed", "--", "cat", "made").out == "half\n"


def test_locking_at_once(shared: TinyWorld) -> None:
    shared.edit("toolchain.toml", '"busybox", "greeting"', '"busybox"')
    at_once(shared, *[("lock",)] * 4)
    shared.run("lock", "--check")
    assert [path.name for path in shared.project.iterdir() if path.name.startswith(".lockbuild.lock")] == []


def test_a_record_keeps_what_is_locked_while_it_builds(shared: TinyWorld) -> None:
    """Locking in the middle of a long record is told, and neither undoes the other's work."""
    shared.edit("lockbuild.toml", "mkdir lib;", "echo ready; sleep 1.5; mkdir lib;")
    with running(shared, "reproduce", "--record") as command:
        command.wait_until_it_says("\nready\n")
        shared.edit("toolchain.toml", '"busybox", "greeting"', '"greeting", "busybox"')
        shared.run("lock")
        locked = (shared.project / "lockbuild.lock").read_text()
        status = command.wait()
    assert status == 1
    assert "the lock does not belong to this manifest" in command.said
    assert (shared.project / "lockbuild.lock").read_text() == locked


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_a_library_makes_another_error_of(
    shared: TinyWorld, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, lockbuild.workflow.workspace as w\n"
        "def close(self):\n"
        f"    try: os.kill(os.getpid(), {int(number)})\n"
        "    except BaseException as error: raise RuntimeError('wrapped') from error\n"
        "w.Workspace.close = close\n"
    )
    shared.extra_environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{shared.process_environ['PYTHONPATH']}"
    with running(shared, "store", "stats") as command:
        assert command.wait() == 130
    assert command.said == "error: interrupted\n"


@pytest.mark.slow
def test_interrupted_while_it_verifies(shared: TinyWorld) -> None:
    """Its workers, whom the terminal interrupts as well, keep silent."""
    chance = random.Random(3)
    for _ in range(10):
        with running(shared, "store", "verify") as command:
            time.sleep(0.2 + 0.5 * chance.random())
            command.signal(signal.SIGINT, group=True)
            assert command.wait() in (0, 130, -signal.SIGINT)
            assert command.said in ("", "error: interrupted\n") or command.process.returncode < 0
            assert command.survivors() == []
