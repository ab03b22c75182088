"""The main road from end to end on a small real world: lock, sync, build, reproduce, run, store."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine import PrivateEngine
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


@pytest.fixture
def recorded(world: TinyWorld) -> TinyWorld:
    """A world whose lock is materialised and has recorded outputs."""
    world.run("lock", "--materialise")
    world.run("reproduce", "--record")
    return world


def lock_text(world: TinyWorld) -> str:
    return (world.project / "lockbuild.lock").read_text()


def test_the_main_road(world: TinyWorld) -> None:
    world.run("lock")
    assert "digest" not in lock_text(world).split("[[trees]]", 1)[1].split("[[sources]]")[0]
    synced = world.run("sync", "--json").value
    assert synced["made"] == ["base", "derive.words"]
    assert world.run("sync", "--json").value["made"] == []
    built = world.run("build", "--json").value["targets"][0]
    dist = world.project / "dist"
    assert (dist / "out.txt").read_text() == "HELLO\nworld\n"
    assert [file["path"] for file in built["files"]] == ["lib/copy.txt", "out.txt"]
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    world.run("reproduce", "--check-hash", status=3)
    world.run("reproduce", "--record")
    result = world.run("reproduce", "--check-hash", "--json").value["targets"][0]
    assert result["same"]
    assert result["stale_input"] is None


def test_a_lock_is_the_same_bytes_from_anywhere(world: TinyWorld, tmp_path: Path) -> None:
    world.run("lock", "--materialise")
    first = lock_text(world)
    elsewhere = tmp_path / "with späce and ü" / "deep"
    elsewhere.mkdir(parents=True)
    for name in ("lockbuild.toml", "toolchain.toml", "main.txt"):
        (elsewhere / name).write_bytes((world.project / name).read_bytes())
    world.run(
        *("lock", "--materialise"),
        project=elsewhere,
        store=tmp_path / "other store",
        environ={"PYTHONHASHSEED": "77", "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "HOME": "/nonexistent"},
    )
    assert (elsewhere / "lockbuild.lock").read_text() == first
    for leak in (world.server.url, "127.0.0.1", str(tmp_path)):
        assert leak not in first


def test_materialised_digests_bind_every_later_sync(world: TinyWorld, tmp_path: Path) -> None:
    world.run("lock", "--materialise")
    lock = world.project / "lockbuild.lock"
    text = lock.read_text()
    base = next(
        line for line in text.splitlines() if line.startswith("digest") and line in text.split("[[trees]]")[1]
    )
    recorded = base.split('"')[1]
    lock.write_text(text.replace(recorded, "sha256:" + "0" * 64))
    result = world.run("sync", store=tmp_path / "fresh", status=5)
    assert recorded in result.err
    assert "sha256:" + "0" * 64 in result.err


def test_a_wrong_derived_tool_is_an_integrity_failure_that_shows_both(
    world: TinyWorld, tmp_path: Path
) -> None:
    world.edit("toolchain.toml", "tr a-z A-Z >", "tr a-z A-Z | tee $OUT/r; head -c 8 /dev/urandom >")
    world.run("lock", "--materialise")
    recorded = lock_text(world).split('name = "derive.words"')[1].split('digest = "')[1][:71]
    result = world.run("sync", store=tmp_path / "fresh", status=5)
    assert recorded in result.err
    assert "derive.words" in result.err
    assert "the derived tool came out as sha256:" in result.err


def test_a_changed_source_byte_is_found_and_restoring_it_mends(recorded: TinyWorld) -> None:
    main = recorded.project / "main.txt"
    main.write_text("worlt\n")
    result = recorded.run("reproduce", "--check-hash", "--json", status=1).value["targets"][0]
    assert [(file["path"], file["verdict"]) for file in result["files"]] == [
        ("lib/copy.txt", "different"),
        ("out.txt", "different"),
    ]
    assert result["files"][1]["first_difference"] == len("HELLO\nworl")
    assert result["stale_input"] is not None
    text = recorded.run("reproduce", "--check-hash", status=1).out
    assert "2 of 2 outputs differ" in text
    assert "first difference at byte 10" in text
    main.write_text("world\n")
    assert "reproduced, as the lock records" in recorded.run("reproduce", "--check-hash").out


def test_checking_never_writes(recorded: TinyWorld) -> None:
    before = {
        path: path.read_bytes()
        for path in recorded.project.rglob("*")
        if path.is_file() and ".lockbuild" not in path.parts
    }
    recorded.run("lock", "--check")
    recorded.run("reproduce", "--check-hash")
    recorded.run("lock", "--upgrade", "--dry-run")
    (recorded.project / "main.txt").write_text("other\n")
    recorded.run("reproduce", status=1)
    (recorded.project / "main.txt").write_text("world\n")
    after = {
        path: path.read_bytes()
        for path in recorded.project.rglob("*")
        if path.is_file() and ".lockbuild" not in path.parts
    }
    assert after == before


def test_a_stale_lock_is_refused_before_anything_is_done(recorded: TinyWorld, tmp_path: Path) -> None:
    recorded.edit("toolchain.toml", '"busybox", "greeting"', '"busybox"')
    requests = len(recorded.server.paths())
    for command in (["sync"], ["build"], ["reproduce"], ["reproduce", "--record"], ["run", "--", "true"]):
        result = recorded.run(*command, store=tmp_path / "untouched", status=1)
        assert 'base.debian.packages: ["busybox", "greeting"] -> ["busybox"]' in result.err
        assert "run `lockbuild lock`" in result.err
    assert not (tmp_path / "untouched").exists()
    assert len(recorded.server.paths()) == requests
    check = recorded.run("lock", "--check", "--json", status=1).value
    assert check["changes"] == [
        {"key": "base.debian.packages", "old": ["busybox", "greeting"], "new": ["busybox"]}
    ]


def test_a_changed_step_needs_no_new_lock_but_makes_the_record_stale(recorded: TinyWorld) -> None:
    recorded.edit("lockbuild.toml", "mkdir lib;", "mkdir -p lib;")
    recorded.run("lock", "--check")
    result = recorded.run("reproduce", "--check-hash", "--json").value["targets"][0]
    assert result["same"]
    assert result["stale_input"] is not None
    told = recorded.run("reproduce", "--check-hash").out
    assert f"changed since the record was made: {result['stale_input']} -> {result['input']}\n" in told
    assert result["input"] == recorded.run("build", "--json").value["targets"][0]["input"]


def test_locking_again_keeps_what_need_not_change(recorded: TinyWorld) -> None:
    before = lock_text(recorded)
    recorded.archive.add("greeting", "2.0", contents={"usr/share/greeting": "salut\n"})
    recorded.publish()
    assert "no pin changes" in recorded.run("lock").out
    assert lock_text(recorded) == before
    table = recorded.run("lock", "--upgrade", "base", "--dry-run").out
    assert "deb greeting (all)" in table
    assert "1.0 " in table
    assert "2.0 " in table
    assert lock_text(recorded) == before
    recorded.run("lock", "--upgrade")
    assert "greeting@2.0" in lock_text(recorded)
    result = recorded.run("reproduce", "--json", status=1).value["targets"][0]
    assert result["stale_input"] is not None
    recorded.run("lock", "--upgrade", "nonsense", status=2)


def test_a_lock_that_binds_less_than_it_did_says_so(recorded: TinyWorld) -> None:
    recorded.edit("toolchain.toml", "tr a-z A-Z", "tr a-y A-Y")
    said = (
        "1 tree and the image {} no longer{} bound by digest; `lockbuild lock --materialise` binds them again"
    )
    assert said.format("would", " be") in recorded.run("lock", "--dry-run").out
    table = recorded.run("lock").out
    assert said.format("are", "") in table
    assert re.search(rf"tree derive\.words \({PLATFORM}\) +sha256:\w+ +->  not materialised\n", table)
    assert re.search(rf"image \({PLATFORM}\) +sha256:\w+ +->  not materialised\n", table)
    assert "no longer" not in recorded.run("lock").out
    bound = recorded.run("lock", "--materialise", "--json").value
    assert bound["unbound"] == {"trees": 0, "images": []}
    recorded.edit("toolchain.toml", '"busybox", "greeting"', '"busybox"')
    recorded.edit("toolchain.toml", "cat /usr/share/greeting |", "echo |")
    table = recorded.run("lock").out
    assert re.search(r"deb greeting \(all\) +1\.0 \w+ +->  \(gone\)\n", table)
    assert "2 trees and the image are no longer bound" in table


def test_whenever_the_lock_was_written_it_says_so(recorded: TinyWorld) -> None:
    lock = recorded.project / "lockbuild.lock"
    before = lock.read_bytes()
    assert recorded.run("lock").out == "lockbuild.lock: no pin changes\n"
    assert recorded.run("lock", "--json").value["written"] is False
    head, line, tail = lock.read_text().partition("schema = 1\n")
    marked = f"{head}<<<<<<< a\n{line}=======\n{line}>>>>>>> b\n{tail}"
    lock.write_text(marked)
    assert recorded.run("lock", "--dry-run").out == "would write lockbuild.lock: no pin changes\n"
    assert recorded.run("lock", "--dry-run", "--json").value["written"] is False
    assert recorded.run("lock").out == "wrote lockbuild.lock: no pin changes\n"
    assert lock.read_bytes() == before
    lock.write_text(marked)
    assert recorded.run("lock", "--json").value["written"] is True


def test_a_recorded_image_that_the_trees_do_not_give_is_found_by_sync(recorded: TinyWorld) -> None:
    lock = recorded.project / "lockbuild.lock"
    good = lock.read_text()
    image = good.split("[environments.")[1].split('image = "')[1][:71]
    lock.write_text(good.replace(image, "sha256:" + "5" * 64))
    for command in (["sync"], ["build"], ["image", "digest"]):
        error = recorded.run(*command, status=5).err
        assert f"the environment's image came out as {image}, but the lock records sha256:5555" in error
        assert "run `lockbuild lock --materialise`" in error
    recorded.run("lock", "--materialise")
    assert lock.read_text() == good
    recorded.run("sync")


def test_an_image_is_called_after_the_toolchain_or_made_anew(recorded: TinyWorld) -> None:
    recorded.edit("toolchain.toml", 'name = "tiny"', 'name = "small"')
    assert "the image is no longer bound by digest" in recorded.run("lock").out
    recorded.run("sync")


def test_a_package_that_left_the_mirror_says_what_to_do(world: TinyWorld) -> None:
    world.run("lock")
    gone = next(path for path in world.server.files if "greeting" in path)
    del world.server.files[gone]
    result = world.run("sync", status=4)
    assert "greeting" in result.err
    assert "snapshot" in result.err
    assert "lockbuild lock --upgrade" in result.err


def test_a_source_of_the_project_is_locked_by_its_tree(world: TinyWorld) -> None:
    (world.project / "assets").mkdir()
    (world.project / "assets" / "a.txt").write_text("asset\n")
    world.edit(
        "lockbuild.toml",
        "[targets.tiny]",
        '[sources.assets]\nfrom = "path"\npath = "assets"\n\n[targets.tiny]',
    )
    world.edit("lockbuild.toml", "$SOURCE/main.txt >", "/build/sources/assets/a.txt >")
    world.run("lock", "--materialise")
    world.run("build")
    assert (world.project / "dist" / "out.txt").read_text() == "HELLO\nasset\n"
    (world.project / "assets" / "a.txt").write_text("changed\n")
    result = world.run("build", status=1)
    assert "assets changed since it was locked" in result.err
    assert "lockbuild lock --upgrade sources.assets" in result.err
    world.run("lock", "--upgrade", "assets", "--materialise")
    world.run("build")
    assert (world.project / "dist" / "out.txt").read_text() == "HELLO\nchanged\n"


def test_outputs_and_state_are_no_source(recorded: TinyWorld) -> None:
    """Else a second build would have another input digest than the first."""
    first = recorded.run("build", "--json").value["targets"][0]["input"]
    (recorded.project / "dist" / "out.txt").unlink()
    assert recorded.run("build", "--json").value["targets"][0]["input"] == first
    # An earlier build's outputs are none either where the next one's go elsewhere.
    elsewhere = recorded.project / "elsewhere"
    assert recorded.run("build", "--json", "-o", elsewhere).value["targets"][0]["input"] == first


def test_how_the_project_and_the_outputs_are_named_decides_nothing(recorded: TinyWorld) -> None:
    first = recorded.run("build", "--json").value["targets"][0]["input"]
    real = recorded.project
    link = real.parent / "link"
    link.symlink_to(real.name)
    store = link / ".store"
    shutil.copytree(recorded.store, real / ".store", symlinks=True)
    for project, out in (
        (real, real / "made" / ".." / "out"),
        (link, real / "out"),
        (real.parent / "link" / ".." / real.name, link / "out"),
        (link, link / "out"),
    ):
        result = recorded.run("build", "--json", "-o", out, project=project, store=store)
        assert result.value["targets"][0]["input"] == first


def test_outputs_among_source_do_not_become_source(recorded: TinyWorld) -> None:
    with (recorded.project / "lockbuild.toml").open("a") as file:
        file.write("\n[targets.second]\nsteps = ['echo 2 > two']\noutputs = ['two']\n")
    recorded.run("reproduce", "--record")
    out = recorded.project / "out" / "x"
    said = recorded.run("build", "-o", out)
    assert f"{out}/second: a .gitignore there" in said.err
    assert sorted(path.name for path in (out / "second").iterdir()) == [".gitignore", "SHA256SUMS", "two"]
    assert "inputs are not those" not in recorded.run("reproduce", "--check-hash").out
    again = recorded.run("build", "second", "-o", recorded.project / "out" / ".." / "out" / "x")
    assert "a .gitignore" not in again.err
    # Where the project's own rules ignore it, and outside, nothing is added.
    (recorded.project / ".gitignore").write_text("/ignored\n")
    for place in ("ignored/here", "../elsewhere", "dist"):
        recorded.run("build", "second", "-o", recorded.project / place)
        names = {path.name for path in (recorded.project / place / "second").iterdir()}
        assert names == {"SHA256SUMS", "two"}


def test_outputs_never_go_over_source(recorded: TinyWorld) -> None:
    with (recorded.project / "lockbuild.toml").open("a") as file:
        file.write("\n[targets.second]\nsteps = ['echo 2 > two']\noutputs = ['two']\n")
    source = recorded.project / "src" / "t.txt"
    source.parent.mkdir()
    source.write_text("")
    for place, told in (
        ("src", "it holds source (t.txt)"),
        (".", "it is source"),
        ("..", "project is in it, which is source"),
        ("/", "project is in it, which is source"),
        (recorded.store / "out", "it is in the store"),
    ):
        result = recorded.run("build", "-o", recorded.project / place, status=2)
        assert told in result.err
        assert "-o DIR" in result.err
    assert not (recorded.project / "tiny").exists()
    assert "it holds source" in recorded.run("reproduce", "tiny", "-o", source.parent, status=2).err


def test_run_is_inside_the_environment(recorded: TinyWorld) -> None:
    result = recorded.run(
        "run", "--", "sh", "-c", "pwd; cat $SOURCE/main.txt; id -u; hostname; exit 3", status=3
    )
    assert result.out == "/build/build\nworld\n1000\nlockbuild\n"
    assert (recorded.project / "main.txt").exists()


def test_all_that_follows_the_command_of_run_is_its_own(recorded: TinyWorld) -> None:
    assert recorded.run("run", "sh", "-c", "echo $0 $*", "--json", "--", "--target", "x").out == (
        "--json -- --target x\n"
    )
    assert recorded.run("run", "--target", "tiny", "--", "echo", "--", "-q").out == "-- -q\n"
    assert "name the command" in recorded.run("run", "--", status=2).err
    with (recorded.project / "lockbuild.toml").open("a") as file:
        file.write("\n[targets.second]\nsteps = ['echo 2 > two']\noutputs = ['two']\n")
    assert "hint: add --target NAME" in recorded.run("run", "true", status=2).err


def test_a_directory_that_is_not_there_is_told_with_its_key(recorded: TinyWorld) -> None:
    manifest = (recorded.project / "lockbuild.toml").read_text()
    recorded.edit("lockbuild.toml", "[targets.tiny]\n", '[targets.tiny]\nsource = "nodir"\n')
    assert "lockbuild.toml: targets.tiny.source: there is no directory" in recorded.run("build", status=2).err
    source = '\n[sources.x]\nfrom = "path"\npath = "nodir"\n'
    (recorded.project / "lockbuild.toml").write_text(manifest + source)
    assert "lockbuild.toml: sources.x.path: there is no directory" in recorded.run("lock", status=2).err


def test_a_project_may_be_named_by_its_manifest(recorded: TinyWorld) -> None:
    recorded.run("lock", "--check", project=recorded.project / "lockbuild.toml")
    said = recorded.run("lock", "--check", project=recorded.project / "main.txt", status=2).err
    assert "main.txt: there is no such directory" in said
    assert "names the directory of a project" in said


def test_where_a_tree_is_takes_no_fetching(recorded: TinyWorld) -> None:
    empty = recorded.directory / "empty"
    requests = len(recorded.server.paths())
    for name in ("base", "derive.words"):
        said = recorded.run("store", "path", name, store=empty, status=3)
        assert (said.out, f"{name} is not in the store {empty}" in said.err) == ("", True)
        assert "lockbuild sync" in said.err
    assert not (empty / "trees").exists()
    assert len(recorded.server.paths()) == requests


def test_where_a_tree_is_needs_no_recorded_digest(world: TinyWorld) -> None:
    world.run("lock")
    world.run("sync")
    assert "digest" not in lock_text(world).partition("[[trees]]")[2]
    assert Path(world.run("store", "path", "words").out.strip(), "words").read_text() == "HELLO\n"


def test_a_shell_is_a_terminal_inside_the_environment(recorded: TinyWorld) -> None:
    import sys

    master, slave = os.openpty()
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "lockbuild",
                "run",
                "--project",
                recorded.project,
                "--store",
                recorded.store,
            ),
            *(
                "--backend",
                "bubblewrap",
                "--",
                "sh",
                "-c",
                "test -t 0 && read word && echo got $word in $(pwd)",
            ),
        ],
        env={**os.environ, **recorded.environ},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        close_fds=True,
        preexec_fn=os.setsid,
    )
    os.close(slave)
    os.write(master, b"tiny\n")
    seen = b""
    while b"got tiny" not in seen:
        seen += os.read(master, 1024)
    assert process.wait(30) == 0
    os.close(master)
    assert b"got tiny in /build/build" in seen


def test_a_failing_step_is_told_with_a_line_that_enters_its_sandbox(recorded: TinyWorld) -> None:
    recorded.edit("lockbuild.toml", "mkdir lib;", "echo half > made; meson setup;")
    result = recorded.run("build", status=6)
    assert "step 2 of 2 failed with status 127" in result.err
    assert "'meson' is not in the environment" in result.err
    line = next(line for line in result.err.splitlines() if "lockbuild shell" in line).split(": ", 1)[1]
    assert "--failed" in line
    assert not (recorded.project / "dist").exists()
    log = recorded.project / ".lockbuild" / "logs" / "tiny.log"
    assert str(log) in result.err
    assert "meson" in log.read_text()
    inside = recorded.run("run", "--failed", "--", "cat", "made", "out.txt")
    assert inside.out == "half\nHELLO\nworld\n"


def test_a_missing_output_is_an_error(recorded: TinyWorld) -> None:
    recorded.edit("lockbuild.toml", '"lib/*.txt"', '"lib/*.txt", "lib/*.wasm"')
    result = recorded.run("build", status=6)
    assert "made no lib/*.wasm" in result.err


def test_a_step_has_no_network(recorded: TinyWorld) -> None:
    port = recorded.server.url.rsplit(":", 1)[1]
    before = len(recorded.server.paths())
    recorded.edit(
        "lockbuild.toml", "mkdir lib;", f"wget http://127.0.0.1:{port}/debian/ || cat /proc/net/dev; false;"
    )
    result = recorded.run("build", status=6)
    assert len(recorded.server.paths()) == before
    interfaces = [
        line.split(":")[0].strip() for line in result.err.splitlines() if ":" in line and " 0 " in line
    ]
    assert set(interfaces) <= {"lo"}
    recorded.edit("lockbuild.toml", f"http://127.0.0.1:{port}/debian/", "http://example.test/x")
    assert "builds have no network" in recorded.run("build", status=6).err


def test_inputs_are_read_only(recorded: TinyWorld) -> None:
    for path in ("$SOURCE/main.txt", "$WORDS", "/usr/share/greeting", "/etc/passwd"):
        result = recorded.run("run", "--", "sh", "-c", f"echo x > {path}", status=None)
        assert result.status != 0, path


def test_a_directory_with_files_of_others_is_never_replaced(recorded: TinyWorld) -> None:
    (recorded.project / "dist").mkdir()
    (recorded.project / "dist" / "precious.txt").write_text("mine")
    result = recorded.run("build", status=2)
    assert "precious.txt" in result.err
    recorded.run("build", "-o", recorded.directory / "elsewhere")
    assert (recorded.directory / "elsewhere" / "out.txt").is_file()
    assert (recorded.project / "dist" / "precious.txt").read_text() == "mine"


def test_several_targets_have_directories_of_their_own(recorded: TinyWorld) -> None:
    with (recorded.project / "lockbuild.toml").open("a") as file:
        file.write("\n[targets.second]\nsteps = ['echo 2 > two']\noutputs = ['two']\n")
    recorded.run("build")
    assert (recorded.project / "dist" / "tiny" / "out.txt").is_file()
    assert (recorded.project / "dist" / "second" / "two").read_text() == "2\n"
    recorded.run("build", "second", "-o", recorded.directory / "out")
    assert (recorded.directory / "out" / "second" / "two").is_file()
    recorded.run("build", "third", status=2)


def test_building_twice_finds_what_is_not_deterministic(recorded: TinyWorld) -> None:
    recorded.run("reproduce", "--twice")
    recorded.edit("lockbuild.toml", "mkdir lib;", "head -c 8 /dev/urandom >> out.txt; mkdir lib;")
    result = recorded.run("reproduce", "--twice", "--json", status=1).value["targets"][0]
    assert [file["verdict"] for file in result["files"]] == ["different", "different"]


def test_the_host_guarantees_nothing_and_says_so(world: TinyWorld) -> None:
    world.edit("toolchain.toml", "[derive.words]\n", "")
    world.edit(
        "toolchain.toml",
        'steps = ["mkdir -p $OUT", "cat /usr/share/greeting | tr a-z A-Z > $OUT/words"]\n',
        "",
    )
    world.edit("toolchain.toml", 'exports = { WORDS = "$OUT/words" }\n', "")
    world.edit("lockbuild.toml", "cat $WORDS $SOURCE/main.txt", "cat $SOURCE/main.txt")
    world.run("lock")
    result = world.run("build", backend="host")
    assert "warning" in result.err
    assert (world.project / "dist" / "out.txt").read_text() == "world\n"
    refused = world.run("reproduce", "--record", backend="host", status=2)
    assert "never recorded" in refused.err
    assert "[outputs" not in lock_text(world)


def test_offline_names_what_is_missing(world: TinyWorld) -> None:
    world.run("lock")
    result = world.run("sync", "--offline", status=4)
    assert "busybox" in result.err
    assert "greeting" in result.err
    world.run("sync")
    world.run("build", "--offline")


def test_the_store_is_looked_after(recorded: TinyWorld) -> None:
    stats = recorded.run("store", "stats", "--json").value
    assert stats["trees"] >= 3
    path = Path(recorded.run("store", "path", "derive.words").out.strip())
    assert (path / "words").read_text() == "HELLO\n"
    recorded.run("store", "verify")
    collected = recorded.run("store", "gc", "--json").value
    assert collected["blobs"] or collected["trees"], "the index and the source snapshot are not kept"
    assert recorded.run("sync", "--offline", "--json").value["made"] == []
    recorded.run("reproduce", "--offline")
    with (path / "words").open("r+b") as file:
        file.write(b"J")
    result = recorded.run("store", "verify", status=5)
    assert f"tree {path.parents[1]}" in result.out
    recorded.run("store", "verify", "--repair", status=5)
    recorded.run("store", "verify")
    assert recorded.run("sync", "--json").value["made"] == ["derive.words"]
    recorded.run("reproduce")


def test_gc_keeps_what_a_lock_without_digests_uses(world: TinyWorld) -> None:
    world.run("lock")
    world.run("sync")
    world.run("store", "gc")
    assert world.run("sync", "--offline", "--json").value["made"] == []


def test_a_store_keeps_what_a_lock_uses_that_was_synced_with_another(
    recorded: TinyWorld, tmp_path: Path
) -> None:
    """Also where that sync has nothing to do, because another project has brought everything there."""
    shutil.copytree(recorded.project, tmp_path / "other")
    store = tmp_path / "shared store"
    recorded.run("sync", project=tmp_path / "other", store=store)
    recorded.run("sync")
    assert recorded.run("sync", "--json", store=store).value["made"] == []
    shutil.rmtree(tmp_path / "other")
    assert recorded.run("store", "gc", "--json", store=store).value["trees"] == []


def test_a_removed_project_keeps_nothing(recorded: TinyWorld) -> None:
    (recorded.project / "lockbuild.lock").rename(recorded.directory / "aside")
    recorded.run("store", "gc")
    stats = recorded.run("store", "stats", "--json").value
    assert (stats["blobs"], stats["trees"]) == (0, 0)


def test_without_any_sandbox_the_remedy_is_told(recorded: TinyWorld) -> None:
    result = recorded.run("build", backend="auto", environ={"PATH": "/nonexistent"}, status=7)
    assert "bubblewrap" in result.err
    assert "Docker" in result.err


def test_the_store_may_come_from_the_environment(world: TinyWorld) -> None:
    from tests.support.command import lockbuild

    environ = {**world.environ, "LOCKBUILD_STORE": str(world.directory / "by environment")}
    lockbuild("lock", cwd=world.project, environ=environ)
    lockbuild("sync", "--backend", "bubblewrap", cwd=world.project / "..", status=2, environ=environ)
    lockbuild("sync", "--backend", "bubblewrap", cwd=world.project, environ=environ)
    assert (world.directory / "by environment" / "trees").is_dir()


@pytest.mark.docker
@pytest.mark.slow
def test_docker_and_bubblewrap_give_the_same(
    recorded: TinyWorld, engine: PrivateEngine, tmp_path: Path
) -> None:
    synced = recorded.run(
        "sync", "--json", backend="docker", environ=engine.environ, store=tmp_path / "another store"
    ).value
    assert synced["made"] == ["base", "derive.words"], (
        "derived in Docker, to the digest that bubblewrap recorded"
    )
    image = next(line for line in lock_text(recorded).splitlines() if line.startswith("image = ")).split('"')[
        1
    ]
    shown = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", image],
        env={**os.environ, **engine.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == image == synced["image"]
    recorded.run("reproduce", backend="docker", environ=engine.environ, store=tmp_path / "another store")
    auto = recorded.run("build", "--json", backend="auto", environ=engine.environ).value
    assert auto["targets"][0]["backend"] == "docker"
    assert PLATFORM.os == "linux"


@pytest.mark.docker
@pytest.mark.slow
def test_a_failed_build_in_docker_can_be_entered_with_bubblewrap(
    recorded: TinyWorld, engine: PrivateEngine
) -> None:
    recorded.edit("lockbuild.toml", "mkdir lib;", "echo half > made; false;")
    result = recorded.run("build", backend="docker", environ=engine.environ, status=6)
    assert "step 2 of 2 failed with status 1" in result.err
    assert recorded.run("run", "--failed", "--", "cat", "made").out == "half\n"


def test_a_build_of_what_is_synced_reads_neither_manifest_nor_lock(recorded: TinyWorld) -> None:
    recorded.run("sync")
    result = recorded.run("build", environ={"PYTHONPROFILEIMPORTTIME": "1"})
    assert "lockbuild.workflow.ready" in result.err
    assert "pydantic" not in result.err


def test_what_was_synced_is_forgotten_when_a_file_changes(recorded: TinyWorld) -> None:
    recorded.run("sync")
    manifest = recorded.project / "lockbuild.toml"
    manifest.write_text(
        manifest.read_text().replace("$SOURCE/main.txt > out", "$SOURCE/main.txt $WORDS > out")
    )
    recorded.run("build")
    assert (recorded.project / "dist" / "out.txt").read_text() == "HELLO\nworld\nHELLO\n"
    toolchain = recorded.project / "toolchain.toml"
    toolchain.write_text(toolchain.read_text().replace("a-z A-Z", "a-y A-Y"))
    assert "derive.words.steps" in recorded.run("build", status=1).err
    assert "derive.words.steps" in recorded.run("run", "--", "true", status=1).err


def test_a_tree_that_left_the_store_is_made_again_by_the_next_build(recorded: TinyWorld) -> None:
    recorded.run("sync")
    words = Path(recorded.run("store", "path", "words").out.strip())
    tree = next(parent for parent in words.parents if parent.parent.name == "sha256")
    shutil.rmtree(tree)
    recorded.run("build")
    assert tree.is_dir()
    assert (recorded.project / "dist" / "out.txt").read_text() == "HELLO\nworld\n"
