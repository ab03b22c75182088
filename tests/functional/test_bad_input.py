"""Locks, manifests and project directories that are wrong: what, where, what next; and nothing is done before."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.command import lockbuild
from tests.support.disks import read_only
from tests.support.http_server import Handler
from tests.support.tiny import PLATFORM, TinyWorld
from tests.support.users import ORDINARY

ZEROS = "sha256:" + "0" * 64
DO_NOT_EDIT = (
    "hint: do not edit a lock by hand: restore it from version control, or remove it and run `lockbuild lock`"
)


def lock_of(world: TinyWorld) -> Path:
    return world.project / "lockbuild.lock"


def blocks(text: str) -> list[str]:
    """The tables of a lock."""
    return re.split(r"\n(?=\[)", text)


def without(text: str, *lines: str) -> str:
    """The lock without the tables that have all these lines."""
    left = [block for block in blocks(text) if not all(line in block for line in lines)]
    assert len(left) < len(blocks(text))
    return "\n".join(left)


# Locks


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("schema = 1", "schema = 7", "it has schema 7, and this version of lockbuild reads schema 1"),
        ("schema = 1", "schema = 0", "schema: must be 1, not 0"),
        ("schema = 1\n", "", "schema: is required"),
    ],
)
def test_an_unknown_schema(shared: TinyWorld, old: str, new: str, told: str) -> None:
    lock_of(shared).write_text(lock_of(shared).read_text().replace(old, new))
    before = lock_of(shared).read_bytes()
    for command in (["sync"], ["lock", "--check"], ["lock"]):
        result = shared.run(*command, status=2)
        assert f"error: {lock_of(shared)}: " in result.err
        assert told in result.err
        assert ("hint: use a version of lockbuild that knows lock schema 7" in result.err) == ("7" in new)
    assert lock_of(shared).read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('suite" = "forky"', 'suite" = "sid"', "manifest.digest: is not the digest of manifest.inputs"),
        (
            'mount = "/opt/words"',
            'mount = "/opt/../etc"',
            "trees[1].mount: '/opt/../etc' is not a place where",
        ),
        ('path = "pool', 'path = "../pool', "is not a path below a registry"),
        ('"out.txt"', '"../out.txt"', "outputs.tiny.files[1].path: '../out.txt' leaves the output directory"),
        (f'["{PLATFORM}:base"]', '["base"]', "sources[0].trees: there is no tree 'base'"),
        ("pkg:deb/debian/greeting", "greeting", "is not a package URL"),
        ("[[trees]]", "[[trees", "not TOML: "),
        ("[[trees]]", "<<<<<<< HEAD\n[[trees]]", "there is an unresolved merge conflict in it"),
        ("size = ", "size = -", "sources[0].size: "),
        ("unpack", "upnack", "trees[0].upnack: unknown key; did you mean 'unpack'?"),
    ],
)
def test_a_lock_that_was_edited_by_hand_is_refused(shared: TinyWorld, old: str, new: str, told: str) -> None:
    text = lock_of(shared).read_text()
    assert old in text
    lock_of(shared).write_text(text.replace(old, new))
    result = shared.run("build", status=2)
    assert f"error: {lock_of(shared)}: " in result.err
    assert told in result.err
    assert "hint: " in result.err or "not TOML" in told
    assert not (shared.project / "dist").exists()


def test_a_lock_in_another_order_is_the_same_lock(shared: TinyWorld, tmp_path: Path) -> None:
    head, *tables = blocks(lock_of(shared).read_text())
    canonical = lock_of(shared).read_bytes()
    arrays = [table for table in tables if table.startswith("[[")]
    rest = [table for table in tables if not table.startswith("[[")]
    lock_of(shared).write_text("\n".join([head, *reversed(arrays), *reversed(rest)]))
    assert lock_of(shared).read_bytes() != canonical
    assert "nothing to do" in shared.run("sync").out
    shared.run("reproduce")
    check = shared.run("lock", "--check", status=1)
    assert (
        f"error: {lock_of(shared)}: it is not in canonical form: it was edited or merged by hand" in check.err
    )
    assert "hint: run `lockbuild lock`" in check.err
    fresh = shared.run("sync", "--json", store=tmp_path / "fresh").value
    assert fresh["made"] == ["base", "derive.words"], "the same trees, whatever the order of their sources"
    shared.run("lock")
    assert lock_of(shared).read_bytes() == canonical
    shared.run("lock", "--check")


def test_a_lock_with_the_line_ends_of_windows_works_and_is_told(shared: TinyWorld) -> None:
    canonical = lock_of(shared).read_bytes()
    lock_of(shared).write_bytes(canonical.replace(b"\n", b"\r\n"))
    shared.run("sync")
    shared.run("reproduce")
    check = shared.run("lock", "--check", status=1)
    assert "its lines end with CR LF, those of a lock with LF alone" in check.err
    assert "add the line `lockbuild.lock -text` to .gitattributes" in check.err
    shared.run("lock")
    assert lock_of(shared).read_bytes() == canonical


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda text: without(text, "[[trees]]", 'name = "derive.words"'),
            f"the lock does not hold what this manifest asks for: {PLATFORM}:derive.words is missing",
        ),
        (
            lambda text: text.replace(
                "[[sources]]",
                f'[[trees]]\nname = "derive.more"\nplatform = "{PLATFORM}"\nunpack = "derive"\n'
                'mount = "/opt/more"\n\n[[sources]]',
                1,
            ),
            f"nothing asks for {PLATFORM}:derive.more",
        ),
        (
            lambda text: text.replace('mount = "/opt/words"', 'mount = "/opt/other"'),
            f"{PLATFORM}:derive.words has the mount '/opt/other', not '/opt/words'",
        ),
        (
            lambda text: text.replace('WORDS = "$OUT/words"', 'WORDS = "/etc"'),
            "derive.words has other exports",
        ),
    ],
)
def test_a_lock_with_other_trees_than_the_manifest_asks_for(
    shared: TinyWorld, spoil: Callable[[str], str], told: str
) -> None:
    canonical = lock_of(shared).read_text()
    lock_of(shared).write_text(spoil(canonical))
    for command in (["sync"], ["build"], ["lock", "--check"]):
        result = shared.run(*command, status=1)
        assert told in result.err
        assert "hint: it was edited or merged by hand; run `lockbuild lock`" in result.err
    shared.run("lock", "--materialise")
    assert lock_of(shared).read_text() == canonical


def test_a_lock_without_its_base_is_mended_by_locking(shared: TinyWorld) -> None:
    canonical = lock_of(shared).read_text()
    text = without(without(canonical, "[[trees]]", 'name = "base"'), "[[sources]]")
    lock_of(shared).write_text(text)
    assert f"{PLATFORM}:base is missing" in shared.run("sync", status=1).err
    shared.run("lock", "--materialise")
    assert undated(lock_of(shared).read_text()) == undated(canonical)


def undated(lock: str) -> list[str]:
    """The lines of a lock without those that tell one day's index from another's: the mirror may have a newer one."""
    dated = ("date = ", "valid-until = ", "inrelease = ")
    return [line for line in lock.splitlines() if not line.startswith(dated)]


def test_an_edited_digest_of_a_source_is_an_integrity_failure(forked: TinyWorld) -> None:
    text = lock_of(forked).read_text()
    wrong = re.sub(r'(greeting_1.0_all.deb"\nsize = \d+\nsha256 = ")sha256:[0-9a-f]+', rf"\g<1>{ZEROS}", text)
    assert wrong != text
    lock_of(forked).write_text(wrong)
    result = forked.run("sync", store=forked.directory / "fresh", status=5)
    assert "pkg:deb/debian/greeting@1.0" in result.err
    assert f"the lock says {ZEROS}" in result.err
    assert "lock again with `lockbuild lock --upgrade`" in result.err


def test_a_manifest_that_changed_after_locking(shared: TinyWorld) -> None:
    shared.edit("toolchain.toml", "tr a-z A-Z", "tr a-z N-ZA-M")
    result = shared.run("build", status=1)
    assert f"error: {lock_of(shared)}: the lock does not belong to this manifest" in result.err
    assert "\n  derive.words.steps: [" in result.err
    assert "hint: run `lockbuild lock`; it keeps every pin that these keys do not touch" in result.err
    assert not (shared.project / "dist").exists()


def test_a_manifest_that_changes_while_a_sync_runs_is_not_taken_for_synced(forked: TinyWorld) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def wait(handler: Handler) -> None:
        asked.set()
        go_on.wait(30)
        handler.serve()

    path = next(path for path in forked.server.files if "greeting" in path)
    forked.server.script[path] = [wait]
    store = forked.directory / "fresh"
    with ThreadPoolExecutor(1) as pool:
        syncing = pool.submit(forked.run, "sync", store=store)
        assert asked.wait(30)
        forked.edit("toolchain.toml", '"busybox", "greeting"', '"busybox"')
        go_on.set()
        syncing.result()
    assert "base.debian.packages" in forked.run("sync", store=store, status=1).err


# Manifests


def test_a_byte_order_mark_and_windows_line_ends_are_read(shared: TinyWorld) -> None:
    for name in ("lockbuild.toml", "toolchain.toml"):
        file = shared.project / name
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    shared.run("lock", "--check")
    shared.run("build")


@pytest.mark.parametrize("name", ["lockbuild.toml", "lockbuild.lock", "toolchain.toml"])
def test_a_directory_where_a_file_should_be(shared: TinyWorld, name: str) -> None:
    (shared.project / name).rename(shared.directory / "aside")
    (shared.project / name).mkdir()
    for command in (["sync"], ["build"], ["lock", "--check"], ["lock"]):
        result = shared.run(*command, status=2)
        assert f"error: {shared.project / name}: it cannot be read: Is a directory" in result.err


@pytest.mark.parametrize("name", ["lockbuild.toml", "toolchain.toml", "lockbuild.lock", "config.toml"])
def test_a_pipe_or_a_device_where_a_file_should_be_is_not_waited_for(shared: TinyWorld, name: str) -> None:
    file = shared.project / name
    environ = {"LOCKBUILD_CONFIG": str(shared.project / "config.toml")} if name == "config.toml" else {}
    for kind in ("fifo", "device"):
        file.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero")
        result = shared.run("sync" if not environ else "lock", status=2, environ=environ)
        assert result.err == f"error: {file}: it cannot be read: it is not a regular file\n"


def test_a_pipe_among_the_outputs_of_before_is_not_waited_for(shared: TinyWorld, tmp_path: Path) -> None:
    for name in ("SHA256SUMS", ".gitignore"):
        (tmp_path / name).mkdir()
        os.mkfifo(tmp_path / name / name)
        result = shared.run("build", "-o", tmp_path / name, status=None)
        assert result.status in (0, 2), "it is in the way, or not, but it is no list of anything"


def test_a_bundle_is_made_since_a_file_only(shared: TinyWorld, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for file in (tmp_path / "fifo", Path("/dev/zero")):
        result = shared.run("bundle", "create", "--since", file, "-o", tmp_path / "b", status=2)
        assert f"error: {file}: it cannot be read: it is not a regular file" in result.err
    result = shared.run("bundle", "load", tmp_path / "fifo", status=2)
    assert result.err == (
        f"error: {tmp_path / 'fifo'}: the bundle cannot be opened: it is not a regular file\n"
        "hint: give a bundle out of a pipe on standard input, as `-`\n"
    )


def test_a_working_directory_that_is_gone(shared: TinyWorld, tmp_path: Path) -> None:
    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    gone = tmp_path / "gone"
    gone.mkdir()
    result = lockbuild("build", environ=shared.environ, preexec=leave, status=2)
    assert result.err == (
        "error: the working directory is not there any more\nhint: change into another one (cd)\n"
    )


def test_an_empty_name_of_a_target(shared: TinyWorld) -> None:
    assert "there is no target '' (there is: tiny)" in shared.run("build", "", status=2).err


def test_strings_that_no_system_takes(shared: TinyWorld) -> None:
    shared.edit("lockbuild.toml", 'steps = ["cat', 'steps = ["echo a\\u0000b", "cat')
    result = shared.run("build", status=2)
    assert "targets.tiny.steps[0]: must not have a NUL character" in result.err


def test_a_manifest_that_is_no_text(shared: TinyWorld) -> None:
    (shared.project / "lockbuild.toml").write_bytes(b"[project]\nname = 'a\xff'\n")
    assert "lockbuild.toml: it is not UTF-8 text (byte 19)" in shared.run("build", status=2).err
    (shared.project / "lockbuild.toml").write_bytes(b"")
    result = shared.run("build", status=2)
    assert "2 problems\n  project: is required\n  targets: is required" in result.err


def test_a_huge_manifest_is_read_in_time(shared: TinyWorld) -> None:
    with (shared.project / "toolchain.toml").open("a") as file:
        file.write("".join(f"# {'x' * 98}\n" for _ in range(100_000)))
    began = time.monotonic()
    shared.run("lock", "--check")
    assert time.monotonic() - began < 10
    with (shared.project / "toolchain.toml").open("a") as file:
        file.write("".join(f'\n[tools.t{n}]\nfrom = "nowhere"\n' for n in range(3000)))
    result = shared.run("build", status=2)
    assert "3000 problems" in result.err
    assert 'tools.t0.from: must be one of "archive"' in result.err


# Directories


@pytest.mark.parametrize("name", ["a b", "ünï ✓", "new\nline", "-lead", "$(x)`\"'\\", "#?&%20"])
def test_a_project_may_be_called_anything(shared: TinyWorld, name: str) -> None:
    directory = shared.directory / name / name
    directory.parent.mkdir()
    shared.project.rename(directory)
    shared.run("reproduce", project=directory)
    shared.run("build", project=directory)
    assert (directory / "dist/out.txt").read_text() == "HELLO\nworld\n"
    file = directory / "lockbuild.toml"
    file.write_text(file.read_text().replace("mkdir lib;", "echo half > made; false;"))
    result = shared.run("build", project=directory, status=6)
    line = result.err.partition("enter the sandbox as this left it: ")[2].rstrip("\n")
    assert line.startswith("lockbuild shell ")
    line = line.replace("lockbuild shell", "lockbuild run", 1) + " -- cat made"
    done = subprocess.run(
        ["sh", "-c", line.replace("lockbuild run", '"$PYTHON" -m lockbuild run', 1)],
        env=shared.process_environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "half\n"), done.stderr


def test_a_read_only_project_can_be_built_and_reproduced(shared: TinyWorld, tmp_path: Path) -> None:
    with read_only(shared.project, tmp_path / "ro") as project:
        for command in (["sync"], ["reproduce"], ["reproduce", "--twice"], ["lock", "--check"], ["lock"]):
            shared.run(*command, project=project)
        shared.run("run", "--", "true", project=project)
        shared.run("build", "-o", tmp_path / "out", project=project)
        assert (tmp_path / "out/out.txt").read_text() == "HELLO\nworld\n"
        result = shared.run("build", project=project, status=2)
        assert f"error: {project}: outputs cannot be put there: it cannot be written to" in result.err
        assert "hint: make that so, or put the outputs elsewhere with -o DIR" in result.err
        assert "[1/2]" not in result.err, "it is told before the build, not after it"
        result = shared.run("reproduce", "--record", project=project, status=2)
        assert f"error: {project / 'lockbuild.lock'}: the lock cannot be written" in result.err
        assert "hint: make the project's directory writable, or work in a copy of it" in result.err
        assert "[1/2]" not in result.err
    shared.edit("lockbuild.toml", "mkdir lib;", "echo half > made; false;")
    with read_only(shared.project, tmp_path / "ro2") as project:
        result = shared.run("build", "-o", tmp_path / "out", project=project, status=6)
        log = Path(result.err.partition("log: ")[2].splitlines()[0])
        assert "false" in log.read_text()
        assert shared.run("run", "--failed", "--", "cat", "made", project=project).out == "half\n"
    shared.edit("toolchain.toml", '"busybox", "greeting"', '"greeting", "busybox"')
    with read_only(shared.project, tmp_path / "ro3") as project:
        result = shared.run("lock", project=project, status=2)
        assert f"error: {project / 'lockbuild.lock'}: the lock cannot be written" in result.err


def powerless() -> None:
    """In a child: root without the powers over files that make it different from others."""
    for capability in (0, 1, 2, 3):  # CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


def test_what_belongs_to_somebody_else(shared: TinyWorld, tmp_path: Path) -> None:
    """As an ordinary user meets it: refused by permissions and not by the file system."""
    for path in (shared.project, *shared.project.rglob("*")):
        os.chown(path, ORDINARY, ORDINARY)
    common = ("--project", shared.project, "--backend", "bubblewrap")

    def run(*arguments: str | Path, store: Path = shared.store, status: int = 0) -> str:
        return lockbuild(
            *common, "--store", store, *arguments, environ=shared.environ, preexec=powerless, status=status
        ).err

    run("reproduce")
    run("build", "-o", tmp_path / "out")
    assert "outputs cannot be put there: it cannot be written to" in run("build", status=2)
    assert "the lock cannot be written" in run("reproduce", "--record", status=2)
    other = tmp_path / "store"
    other.mkdir()
    os.chown(other, ORDINARY, ORDINARY)
    said = run("sync", store=other, status=4)
    assert f"error: {other}: cannot open the store: Permission denied" in said
    assert "hint: check who owns the directory and whether it is writable, or name another place" in said
    (shared.project / "main.txt").chmod(0)
    said = run("build", "-o", tmp_path / "out", status=2)
    assert f"error: {shared.project / 'main.txt'}: it cannot be read: Permission denied" in said
    assert "hint: make it readable, or leave it out by .gitignore" in said


def test_a_lock_that_is_closed_now_keeps_what_it_may_need(forked: TinyWorld) -> None:
    """The store is another user's who may not look into the project any more, so whether the lock is there is not
    known."""
    forked.run("sync")
    forked.run("store", "gc")
    os.chown(forked.project, ORDINARY, ORDINARY)
    forked.project.chmod(0o700)
    common = ("--store", forked.store)
    (forked.store / "blobs/sha256" / ("0" * 64)).write_bytes(b"of whom nobody knows")
    gone = lockbuild(*common, "store", "gc", "--json", preexec=powerless)
    assert (gone.value["blobs"], gone.value["trees"]) == ([], [])
    assert (
        f"warning: {lock_of(forked)}: this lock may not be read, so its trees and all blobs are kept"
        in gone.err
    )
    assert "hint: run this as a user who may read it" in gone.err
    (forked.directory / "alone").mkdir()
    forked.run("sync", store=forked.directory / "alone")
    said = lockbuild("--store", forked.directory / "alone", "serve", preexec=powerless, status=2).err
    assert f"what a lock names is not served: {lock_of(forked)}: it cannot be read: Permission denied" in said
    assert (
        "error: " + str(forked.directory / "alone") + ": no lock is known, so there is nothing to serve"
        in said
    )
    assert forked.run("sync", "--offline", "--json").value["made"] == []
    forked.run("store", "gc")
    assert not (forked.store / "blobs/sha256" / ("0" * 64)).exists()


def test_a_read_only_store_says_so(shared: TinyWorld, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for number, store in enumerate((shared.store, tmp_path / "empty")):
        with read_only(store, tmp_path / f"ro{number}") as place:
            for command in (["build"], ["reproduce"], ["store", "gc"]):
                result = shared.run(*command, store=place, status=4)
                assert f"error: {place}: cannot " in result.err
                assert "Read-only file system" in result.err
                assert "or name another place with --store DIR" in result.err
            shared.run("store", "verify", store=place)
            shared.run("store", "stats", store=place)
            shared.run("lock", "--check", store=place)


def test_a_home_that_cannot_be_written_to(shared: TinyWorld) -> None:
    environ = {**shared.environ, "HOME": "/proc/nowhere", "XDG_CACHE_HOME": "", "LOCKBUILD_STORE": ""}
    arguments = ("--project", shared.project, "--backend", "bubblewrap")
    result = lockbuild(*arguments, "sync", environ=environ, status=4)
    assert "error: /proc/nowhere/.cache/lockbuild/store: cannot open the store: No such file" in result.err
    assert "hint: look at what stands there, or name another place with --store DIR" in result.err
    lockbuild(*arguments, "lock", "--check", environ=environ)
    lockbuild(*arguments, "build", "--store", shared.store, environ=environ)


def test_a_file_where_the_state_directory_should_be(shared: TinyWorld) -> None:
    (shared.project / ".lockbuild").rename(shared.directory / "aside")
    (shared.project / ".lockbuild").touch()
    result = shared.run("build", status=2)
    assert f"error: {shared.project / '.lockbuild'}: it is not a directory, and lockbuild writes there" in (
        result.err
    )
    assert "hint: move it away" in result.err


FAILING = "echo made > out.txt; false;"


def victim_of(world: TinyWorld, link: str) -> Path:
    """A directory of the host with files in it, to which the project's ``link`` leads, as it can come by git."""
    victim = world.directory / "victim"
    for name in ("tiny/precious", "tiny.log"):
        (victim / name).parent.mkdir(parents=True, exist_ok=True)
        (victim / name).write_text(name)
    shutil.rmtree(world.project / ".lockbuild")
    at = world.project / link
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(os.path.relpath(victim, at.parent))
    return victim


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    "link", [".lockbuild", ".lockbuild/logs", ".lockbuild/failed", ".lockbuild/failed/tiny"]
)
def test_links_in_the_state_directory_are_refused(shared: TinyWorld, link: str) -> None:
    victim = victim_of(shared, link)
    before = contents(victim)
    shared.edit("lockbuild.toml", "mkdir lib;", FAILING)
    early = "failed" not in link
    said = shared.run("build", status=2 if early else 6).err
    assert (
        f"{shared.project / link}: it is a symbolic link, and lockbuild follows none where it writes" in said
    )
    assert "hint: remove it" in said
    assert ("[1/2]" in said) != early
    if link != ".lockbuild/logs":
        shared.run("run", "--failed", "--", "ls", status=2)
    shared.run("lock", "--check")
    assert contents(victim) == before


def test_links_in_the_place_of_files_of_the_state_directory_are_replaced(shared: TinyWorld) -> None:
    victim = victim_of(shared, ".lockbuild/logs")
    (shared.project / ".lockbuild/logs").unlink()
    before = contents(victim)
    (shared.project / ".lockbuild/logs").mkdir()
    links = {
        "logs/tiny.log": "tiny.log",
        "stamp.json": "tiny.log",
        "stamp.new": "tiny.log",
        ".gitignore": "new",
    }
    for link, at in links.items():
        (shared.project / ".lockbuild" / link).symlink_to(victim / at)
    shared.run("lock", "--check")
    shared.run("build")
    assert contents(victim) == before
    assert "cat $WORDS" in (shared.project / ".lockbuild/logs/tiny.log").read_text()
    assert not (shared.project / ".lockbuild/stamp.json").is_symlink()
    (shared.project / ".lockbuild/logs/tiny.log").unlink()
    (shared.project / ".lockbuild/logs/tiny.log").mkdir()
    said = shared.run("build", status=2).err
    assert (
        f"{shared.project / '.lockbuild/logs/tiny.log'}: it is a directory, and lockbuild writes a file"
        in said
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [("link", "it is a symbolic link"), ("dangling", "symbolic link"), ("file", "not a dir")],
)
def test_what_stands_where_dist_should_be(shared: TinyWorld, kind: str, told: str) -> None:
    dist = shared.project / "dist"
    if kind == "file":
        dist.touch()
    else:
        dist.symlink_to("/nonexistent" if kind == "dangling" else shared.directory)
    result = shared.run("build", status=2)
    assert f"error: {dist}: {told}" in result.err or (f"error: {dist}: " in result.err and told in result.err)
    assert "or put the outputs elsewhere with -o DIR" in result.err
    assert "[1/2]" not in result.err


@pytest.mark.parametrize("link", ["dist", "dist/autostart", "build"])
def test_links_of_the_project_do_not_lead_outputs_out_of_it(shared: TinyWorld, link: str) -> None:
    victim = shared.directory / "victim"
    (victim / "autostart").mkdir(parents=True)
    steps = 'steps = ["echo x > x.desktop"]\noutputs = ["x.desktop"]\n'
    with (shared.project / "lockbuild.toml").open("a") as file:
        file.write(f"\n[targets.autostart]\n{steps}")
    at = shared.project / link
    at.parent.mkdir(exist_ok=True)
    at.symlink_to(victim)
    chosen = ["-o", shared.project / link] if link == "build" else []
    result = shared.run("build", *chosen, status=2)
    assert f"error: {at}: it is a symbolic link, and lockbuild follows none where it writes" in result.err
    assert "hint: remove it, or put the outputs elsewhere with -o DIR" in result.err
    assert "[1/" not in result.err
    assert [path.name for path in victim.rglob("*")] == ["autostart"]
    at.unlink()
    outside = shared.directory / "outside"
    outside.symlink_to(victim)
    shared.run("build", "-o", outside)
    assert (victim / "autostart/x.desktop").read_text() == "x\n"


@pytest.mark.parametrize("way", ["src", "src/deep"])
def test_links_of_the_project_do_not_make_other_directories_its_source(shared: TinyWorld, way: str) -> None:
    secret = shared.directory / "secret"
    (secret / "deep").mkdir(parents=True)
    for place in (secret, secret / "deep"):
        (place / "main.txt").write_text("secret\n")
    (shared.project / "src").symlink_to(secret)
    told = f"error: {shared.project / way}: a link leads out of the project, to {secret}"
    manifest = (shared.project / "lockbuild.toml").read_text()
    shared.edit("lockbuild.toml", "[targets.tiny]", f'[targets.tiny]\nsource = "{way}"')
    assert told in shared.run("build", status=2).err
    assert told in shared.run("run", "--", "true", status=2).err
    (shared.project / "src").unlink()
    (shared.project / "real/deep").mkdir(parents=True)
    for place in ("real", "real/deep"):
        (shared.project / place / "main.txt").write_text("ours\n")
    (shared.project / "src").symlink_to("real")
    shared.run("build")
    assert (shared.project / "dist/out.txt").read_text() == "HELLO\nours\n"
    (shared.project / "lockbuild.toml").write_text(
        manifest.replace("[targets.tiny]", f'[sources.s]\nfrom = "path"\npath = "{way}"\n\n[targets.tiny]')
    )
    shared.run("lock")
    (shared.project / "src").unlink()
    (shared.project / "src").symlink_to(secret)
    assert told in shared.run("build", status=2).err
    assert told in shared.run("lock", "--upgrade", "sources.s", status=2).err


WRITERS = (["image", "build"], ["bundle", "create"], ["export", "env"])


@pytest.mark.parametrize("command", WRITERS, ids=" ".join)
def test_what_is_no_file_is_not_replaced_by_one(
    shared: TinyWorld, tmp_path: Path, command: list[str]
) -> None:
    file, pipe, link = tmp_path / "file", tmp_path / "pipe", tmp_path / "link"
    shared.run(*command, "-o", file)
    os.mkfifo(pipe)
    link.symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_bytes)
        shared.run(*command, "-o", pipe)
        assert reading.result() == file.read_bytes()
    assert pipe.is_fifo()
    told = "it is a symbolic link, which a new file would take the place of"
    file.write_bytes(b"precious")
    for name, to in {"link": file, "dangling": tmp_path / "nowhere", "loop": tmp_path / "loop"}.items():
        at = tmp_path / name
        said = shared.run(*command, "-o", at, status=2).err
        assert f"error: {at}: {told}" in said
        assert f"hint: name what it leads to, {to}, or remove the link" in said
        assert at.is_symlink()
    assert file.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert (
            "it is a block device or socket" in shared.run(*command, "-o", tmp_path / "socket", status=2).err
        )
    assert "error: -o - names nothing" in shared.run(*command, "-o", "-", status=2).err
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        null.write_bytes(b"")
    except PermissionError:
        pytest.skip("device nodes are of no use here")
    shared.run(*command, "-o", null)
    assert null.is_char_device()


def test_a_part_of_a_bundle_is_a_file(shared: TinyWorld, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.001")
    said = shared.run("bundle", "create", "-o", tmp_path / "b", "--split", "600K", status=2).err
    assert f"error: {tmp_path / 'b.001'}: a part cannot be written into a device or pipe" in said
    assert not (tmp_path / "b.000").exists()


def test_a_lock_does_not_take_the_place_of_a_link(shared: TinyWorld) -> None:
    lock = lock_of(shared)
    lock.rename(shared.directory / "real.lock")
    lock.symlink_to("../real.lock")
    shared.run("lock")
    shared.run("build")
    shared.edit("toolchain.toml", "tr a-z A-Z", "tr a-z N-ZA-M")
    said = shared.run("lock", status=2).err
    assert f"error: {lock}: it is a symbolic link, which a new file would take the place of" in said
    assert f"hint: name what it leads to, {shared.directory / 'real.lock'}, or remove the link" in said
    assert lock.is_symlink()


def test_a_store_in_the_project_is_no_source_of_it(shared: TinyWorld) -> None:
    store = shared.project / "cache"
    first = shared.run("build", "--json", store=store).value["targets"][0]["input"]
    assert shared.run("build", "--json", store=store).value["targets"][0]["input"] == first
    shared.run("reproduce", store=store)
    store.rename(shared.directory / "moved")
    assert shared.run("build", "--json").value["targets"][0]["input"] == first


def test_a_source_that_is_the_whole_project_does_not_change_by_being_locked_and_built(
    shared: TinyWorld,
) -> None:
    shared.edit(
        "lockbuild.toml", "[targets.tiny]", '[sources.all]\nfrom = "path"\npath = "."\n\n[targets.tiny]'
    )
    shared.run("lock", "--materialise")
    for command in (["build"], ["lock"], ["build"], ["reproduce", "--record"], ["reproduce"]):
        shared.run(*command)
