"""Standard streams that are closed, full, of another encoding, or read by somebody who has enough: the work is done all
the same, and the status says what came of it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.tiny import TinyWorld

CANNOT = "error: the result cannot be written to standard output: No space left on device\n"


def shell(world: TinyWorld, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a ``script`` in which ``L`` is lockbuild, in the project."""
    common = f'--store "{world.store}" --backend bubblewrap'
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; L() {{ "$PYTHON" -m lockbuild {common} "$@"; }}\n{script}'],
        cwd=world.project,
        env={**world.process_environ, **environ},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [("build --json", 0), ("lock --check --json", 1), ("lock --check", 1), ("--help", 0)],
)
def test_a_reader_that_goes_away_leaves_the_status(shared: TinyWorld, command: str, status: int) -> None:
    if status:
        shared.edit("toolchain.toml", '"greeting"]', '"greeting", "more"]')
    done = shell(shared, f"L {command} | true")
    assert done.returncode == status, done
    assert "Broken pipe" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_build_whose_progress_nobody_reads_is_done(shared: TinyWorld) -> None:
    done = shell(shared, "L build 2>&1 >out | head -1")
    assert (done.returncode, done.stdout[:12]) == (0, "tiny [1/2] c"), done
    assert (shared.project / "dist" / "out.txt").read_text() == "HELLO\nworld\n"
    assert shell(shared, "L build --offline x 2>&1 | true").returncode == 2


def test_run_ends_as_what_it_ran_would(shared: TinyWorld) -> None:
    done = shell(shared, "L run -- yes | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (141, "y\n", "")
    done = shell(shared, "L run -- yes >/dev/full")
    assert done.returncode == 4
    assert done.stderr.startswith(CANNOT)


def test_a_full_disk_behind_the_result_is_told_as_that(shared: TinyWorld) -> None:
    for command in ("build", "build --json"):
        done = shell(shared, f"L {command} >/dev/full")
        assert done.returncode == 4, done
        assert CANNOT in done.stderr
        assert "--store" not in done.stderr
        assert "Traceback" not in done.stderr
    done = shell(shared, "L sync --json --project nowhere >/dev/full")
    assert (done.returncode, done.stderr.startswith(CANNOT)) == (2, True), "what went wrong before stays"
    assert shell(shared, "L build 2>/dev/full >/dev/null").returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_takes_everything(shared: TinyWorld, closed: str) -> None:
    done = shell(
        shared, f'L build -o out {closed} || exit 99; L run -- sh -c "cat; echo hi; exit 5" {closed}'
    )
    assert done.returncode == 5, done
    assert "Traceback" not in done.stderr
    assert (shared.project / "out" / "out.txt").read_text() == "HELLO\nworld\n"
    assert done.stdout.endswith("hi\n") == (">&-" not in closed.split())


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii", "latin-1"])
def test_names_that_standard_output_has_no_characters_for(shared: TinyWorld, encoding: str) -> None:
    out = os.fsdecode(b"o\xff\xc3\xbc")
    environ = {"PYTHONIOENCODING": encoding, "OUT": out}
    done = shell(shared, 'L build -o "$OUT"', **environ)
    assert done.returncode == 0, done
    assert "o\\xff" in done.stdout
    done = shell(shared, 'L build -o "$OUT" --json', **environ)
    assert json.loads(done.stdout)["targets"][0]["directory"] == str(shared.project / out)


def test_json_is_utf_8_in_every_locale(shared: TinyWorld) -> None:
    for locale in ("C", "C.UTF-8"):
        done = shell(shared, "L build -o $'o\\xff\\xc3\\xbc\\e' --json", LC_ALL=locale, PYTHONUTF8="0")
        assert done.returncode == 0, done
        text = done.stdout.encode("utf-8", "surrogateescape").decode()
        directory = json.loads(text)["targets"][0]["directory"]
        assert os.fsencode(directory).endswith(b"/o\xff\xc3\xbc\x1b")
        assert "\x1b" not in text


def test_what_strangers_wrote_does_nothing_to_the_terminal(shared: TinyWorld) -> None:
    manifest = shared.project / "lockbuild.toml"
    manifest.write_text(manifest.read_text() + '"a\\u001b[2J\\u202e\\nhint: run x" = 1\n')
    result = shared.run("build", status=2)
    assert "\x1b" not in result.err
    assert "\u202e" not in result.err
    assert 'targets.tiny."a\\u001b[2J\\u202e\\nhint: run x": unknown key' in result.err
