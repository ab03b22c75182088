"""Builds that misbehave: steps that fail, flood, linger and reach out, and outputs that are not what they seem."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.support.tiny import TinyWorld


def target(world: TinyWorld, outputs: list[str], *steps: str) -> None:
    """Let the world's target be this one."""
    file = world.project / "lockbuild.toml"
    head = file.read_text().split("[targets.tiny]")[0]
    text = f"[targets.tiny]\nsteps = {json.dumps(steps)}\noutputs = {json.dumps(outputs)}\n"
    file.write_text(head + text)


def dist(world: TinyWorld) -> dict[str, bytes]:
    """The outputs by name."""
    root = world.project / "dist"
    found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    del found["SHA256SUMS"]
    return found


# Steps


def test_a_missing_compiler(shared: TinyWorld) -> None:
    target(shared, ["out"], "nosuchcc -c main.c -o out")
    result = shared.run("build", status=6)
    assert "error: tiny: step 1 of 1 failed with status 127: nosuchcc -c main.c -o out" in result.err
    assert "hint: 'nosuchcc' is not in the environment: add the Debian package that has it" in result.err
    assert "lockbuild shell " in result.err
    shared.edit("toolchain.toml", "cat /usr/share/greeting", "nosuchcc; cat /usr/share/greeting")
    shared.run("lock")
    result = shared.run("sync", status=6)
    assert "error: derive.words: step 2 of 2 failed with status 127" in result.err
    assert "hint: 'nosuchcc' is not in the environment" in result.err
    log = Path(result.err.partition("log: ")[2].splitlines()[0])
    assert "nosuchcc: not found" in log.read_text()


def test_a_step_that_reads_the_network(shared: TinyWorld) -> None:
    """Neither by name nor by address, neither a target's nor a derived tool's."""
    before = len(shared.server.requests)
    url = f"{shared.server.url}/debian/dists/forky/InRelease"
    target(shared, ["out"], f"wget -O out {url}")
    result = shared.run("build", status=6)
    assert "error: tiny: step 1 of 1 failed with status 1" in result.err
    target(shared, ["out"], "wget -O out http://example.test/x")
    result = shared.run("build", status=6)
    assert "hint: builds have no network: declare what the step downloads under [sources]" in result.err
    target(shared, ["out"], f"wget -O out {url} || echo none > out")
    shared.run("build")
    assert dist(shared) == {"out": b"none\n"}
    shared.edit(
        "toolchain.toml", "cat /usr/share/greeting", f"wget -O - {url} || true; cat /usr/share/greeting"
    )
    shared.run("lock", "--materialise")
    seen = [request.path for request in shared.server.requests[before:] if request.headers.get("user-agent")]
    assert all(
        "wget" not in request.headers.get("user-agent", "").lower() for request in shared.server.requests
    )
    assert "/debian/dists/forky/InRelease" not in seen


def test_a_step_that_leaves_processes_behind(shared: TinyWorld) -> None:
    mark = "86399"  # a number of seconds that nobody else sleeps
    target(
        shared,
        ["out"],
        f"sleep {mark} & setsid sleep {mark} >/dev/null 2>&1 </dev/null & nohup sleep {mark} & echo x > out",
        'test -z "$(pidof sleep)"',
    )
    shared.run("build")
    found = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_a_step_that_floods_the_terminal(shared: TinyWorld) -> None:
    target(shared, ["out"], "yes 0123456789 | head -c 100000000; echo done > out; echo the end")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    result = shared.run("build", "-q")
    assert len(result.err) == 0
    log = (shared.project / ".lockbuild/logs/tiny.log").read_bytes()
    assert len(log) > 100_000_000
    assert log.endswith(b"the end\n")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 200_000), "kB"
    assert dist(shared) == {"out": b"done\n"}


def test_a_step_that_writes_what_is_no_text(shared: TinyWorld) -> None:
    target(shared, ["out"], r"printf '\377\376\033[31m\0bad\n'; echo x > out; false")
    common = ("--project", shared.project, "--store", shared.store, "--backend", "bubblewrap")
    done = subprocess.run(
        [shared.process_environ["PYTHON"], "-m", "lockbuild", *common, "build"],
        env={**shared.process_environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 6
    assert b"\xff\xfe\x1b[31m\0bad\n" in done.stderr
    assert b"step 1 of 1 failed with status 1" in done.stderr


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("kill -9 $$", "failed with status 137 (SIGKILL)"),
        ("kill -SEGV $$", "failed with status 139 (SIGSEGV)"),
        ("exit 255", "failed with status 255: exit 255"),
        ("unclosed '", "failed with status 2"),
    ],
)
def test_how_a_step_ended_is_told(shared: TinyWorld, step: str, told: str) -> None:
    target(shared, ["out"], step)
    result = shared.run("build", status=6)
    assert f"error: tiny: step 1 of 1 {told}" in result.err
    assert ("memory ran out" in result.err) == ("SIGKILL" in told)


def test_a_step_of_several_lines_is_told_on_one(shared: TinyWorld) -> None:
    target(shared, ["out"], "cat > out <<E\n1\nE\nfalse")
    said = shared.run("build", status=6).err
    assert "\ntiny [1/1] cat > out <<E\\n1\\nE\\nfalse\n" in f"\n{said}"
    assert "failed with status 1: cat > out <<E\\n1\\nE\\nfalse\n" in said


def test_a_very_long_step(shared: TinyWorld) -> None:
    target(shared, ["out"], "echo x > out; : " + "x" * 130_000)
    assert len(shared.run("build").err) < 2000, "nobody wants to see all of it"
    target(shared, ["out"], "echo x > out; : " + "x" * 131_072)
    result = shared.run("build", status=6)
    assert "step 1 of 1 has 131,088 bytes, and Linux passes no more than 131,071" in result.err
    assert "hint: put it into a file of the project" in result.err
    with (shared.project / "lockbuild.toml").open("a") as file:
        file.write(f'[targets.tiny.env]\nLONG = "{"x" * 131_072}"\n')
    target_text = (shared.project / "lockbuild.toml").read_text().replace("x" * 131_072, "y" * 131_072, 1)
    (shared.project / "lockbuild.toml").write_text(target_text.replace(": " + "y" * 131_072, ""))
    assert "the variable LONG has 131,077 bytes" in shared.run("build", status=6).err


# Outputs


@pytest.mark.parametrize(
    ("outputs", "step", "told"),
    [
        (["out"], "echo x > real; ln -s real out", "out (a symbolic link to real)"),
        (["out"], "ln -s /etc/passwd out", "out (a symbolic link to /etc/passwd)"),
        (["out"], "mkdir real; echo x > real/f; ln -s real out", "out (a symbolic link to real)"),
        (["lib*"], "echo x > libx.so.1; ln -s libx.so.1 libx.so", "libx.so (a symbolic link to libx.so.1)"),
        (["d"], "mkdir d; echo x > d/f; mkfifo d/p", "d/p (a fifo, socket or device)"),
        (
            ["d"],
            "mkdir d; ln -s a d/1; ln -s b d/2",
            "d/1 (a symbolic link to a), d/2 (a symbolic link to b)",
        ),
    ],
)
def test_outputs_that_are_no_files(shared: TinyWorld, outputs: list[str], step: str, told: str) -> None:
    target(shared, outputs, step)
    result = shared.run("build", status=6)
    assert f"error: tiny: what was made is not a regular file: {told}" in result.err
    assert "hint: name the file that a link leads to, or let a step put a copy there (`cp -L`)" in result.err
    assert "enter the sandbox as this left it" in result.err
    assert not (shared.project / "dist").exists()


@pytest.mark.parametrize(
    ("outputs", "step", "told"),
    [
        (["out", "more/*.js"], "echo x > out", "the steps succeeded, but made no more/*.js"),
        (["SHA256SUMS"], "echo x > SHA256SUMS", "an output must not be called SHA256SUMS"),
        (
            ["d"],
            "mkdir d; touch \"d/$(printf 'a\\377b')\"",
            r"the name of an output is not UTF-8: 'd/a\udcffb'",
        ),
        (["d"], "mkdir d", "the steps succeeded, but made no d"),
    ],
)
def test_outputs_that_cannot_be(shared: TinyWorld, outputs: list[str], step: str, told: str) -> None:
    target(shared, outputs, step)
    result = shared.run("build", status=6)
    assert f"error: tiny: {told}" in result.err
    assert "hint: " in result.err
    assert not (shared.project / "dist").exists()


def test_outputs_with_odd_modes_are_taken_and_made_plain(shared: TinyWorld) -> None:
    target(
        shared,
        ["a", "s", "d", "w"],
        "echo a > a; chmod 000 a; echo s > s; chmod 6755 s; echo w > w; chmod 666 w",
        "mkdir -p d/e; echo f > d/e/f; chmod 000 d/e; chmod 200 d; chmod 555 .",
    )
    shared.run("build")
    root = shared.project / "dist"
    modes = {p.relative_to(root).as_posix(): p.stat().st_mode & 0o7777 for p in root.rglob("*")}
    assert modes == {
        "SHA256SUMS": 0o644,
        "a": 0o644,
        "s": 0o755,
        "d": 0o755,
        "d/e": 0o755,
        "d/e/f": 0o644,
        "w": 0o644,
    }
    assert dist(shared) == {"a": b"a\n", "s": b"s\n", "d/e/f": b"f\n", "w": b"w\n"}


NAMES = [
    "a b",
    "new\nline",
    "[a]*?",
    "back\\slash",
    "-dash",
    "ü ✓",
    "$(x)`\"'",
    "\x7f\x1b",
    " lead",
    "a" * 255,
]


def test_outputs_with_odd_names_survive_everything(shared: TinyWorld) -> None:
    script = "mkdir d\n" + "".join(f"echo {n} > {quoted(f'd/{name}')}\n" for n, name in enumerate(NAMES))
    (shared.project / "make.sh").write_text(script)
    target(shared, ["d"], "sh $SOURCE/make.sh")
    shared.run("build")
    wanted = {f"d/{name}": f"{n}\n".encode() for n, name in enumerate(NAMES)}
    assert dist(shared) == wanted
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=shared.project / "dist", check=True
    )
    shared.run("build")
    assert dist(shared) == wanted, "the second build knows the first one's files"
    shared.run("reproduce", "--record")
    shared.run("lock", "--check")
    reported = shared.run("reproduce", "--json").value["targets"][0]
    assert reported["same"]
    assert sorted(file["path"] for file in reported["files"]) == sorted(wanted)


def quoted(name: str) -> str:
    return "'" + name.replace("'", "'\\''") + "'"


def test_a_name_may_look_like_a_pattern(shared: TinyWorld) -> None:
    target(
        shared,
        ["a[1].txt", r"b\[2\].txt", "./c"],
        "for n in 'a[1].txt' 'b[2].txt' c; do echo $n > \"$n\"; done",
    )
    shared.run("build")
    assert sorted(dist(shared)) == ["a[1].txt", "b[2].txt", "c"]


def test_a_sparse_output_costs_no_memory_and_no_disk(shared: TinyWorld) -> None:
    target(shared, ["out"], "truncate -s 500M out; echo end >> out")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    shared.run("build")
    status = (shared.project / "dist/out").stat()
    assert status.st_size == (500 << 20) + 4
    assert status.st_blocks * 512 < 1 << 20
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 200_000), "kB"
    with (shared.project / "dist/out").open("rb") as file:
        file.seek(500 << 20)
        assert file.read() == b"end\n"


def test_dist_is_replaced_whole_and_only_if_it_is_ours(shared: TinyWorld) -> None:
    target(shared, ["*"], "echo 1 > one; echo 2 > two")
    shared.run("build")
    target(shared, ["*"], "echo 1 > one")
    shared.run("build")
    assert dist(shared) == {"one": b"1\n"}
    os.symlink("/etc", shared.project / "dist/link")
    result = shared.run("build", status=2)
    assert "it holds files that lockbuild did not put there: link" in result.err
    assert "[1/1]" not in result.err
    assert (shared.project / "dist/link").is_symlink()
