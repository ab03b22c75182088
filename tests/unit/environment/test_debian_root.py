from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.debian import debian_root
from lockbuild.errors import IntegrityError, LockbuildError, ResolveError
from lockbuild.events import Advanced, Event, Finished, Started, silent
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform
from tests.support.debs import directory, entry, file, link, write_deb

AMD64 = Platform.parse("linux/amd64")


def make(root: Path, debs: Sequence[Path]) -> Path:
    root.mkdir()
    debian_root(debs, root, platform=AMD64, report=silent)
    return root


def in_every_order(tmp_path: Path, debs: Sequence[Path]) -> Path:
    """One of the roots that all orders of the packages give."""
    digests: set[Digest] = set()
    for number, order in enumerate(permutations(debs)):
        digests.add(tree_digest(make(tmp_path / f"root-{number}", order)))
    assert len(digests) == 1
    return tmp_path / "root-0"


def fails_in_every_order(tmp_path: Path, debs: Sequence[Path]) -> LockbuildError:
    errors: dict[str, LockbuildError] = {}
    for number, order in enumerate(permutations(debs)):
        with pytest.raises(ResolveError) as error:
            make(tmp_path / f"failed-{number}", order)
        errors[str(error.value.on)] = error.value
    (only,) = errors.values()
    return only


def test_packages_are_joined_and_everything_is_kept_as_packaged(tmp_path: Path) -> None:
    one = write_deb(
        tmp_path / "one.deb",
        [
            directory("./usr/share/doc/one"),
            file("./usr/share/doc/one/copyright", "(c)"),
            file("./usr/bin/one", "#!/bin/sh\n", mode=0o4755),
            link("./usr/bin/uno", "one"),
            file("./usr/share/" + "deep/" * 30 + "file", "deep"),
        ],
    )
    two = write_deb(tmp_path / "two.deb", [file("./usr/share/doc/two/copyright", "(C)", mode=0o600)])
    root = in_every_order(tmp_path, [one, two])
    assert (root / "usr/share/doc/one/copyright").read_text() == "(c)"
    assert (root / "usr/share/doc/two/copyright").read_text() == "(C)"
    assert (root / "usr/share" / ("deep/" * 30) / "file").read_text() == "deep"
    assert os.readlink(root / "usr/bin/uno") == "one"
    assert stat.S_IMODE((root / "usr/bin/one").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "usr/share/doc/two/copyright").stat().st_mode) == 0o644
    assert not [path for path in root.iterdir() if path.name.startswith(".")]


def test_the_usr_merge_is_kept_whatever_packages_ship(tmp_path: Path) -> None:
    links = write_deb(
        tmp_path / "base-files.deb",
        [link("./bin", "usr/bin"), link("./lib", "usr/lib"), link("./sbin", "usr/sbin")],
    )
    old = write_deb(
        tmp_path / "old.deb",
        [file("./bin/sh", "sh", mode=0o755), file("./lib/x/y", "y"), file("./lib64/ld.so", "ld")],
    )
    new = write_deb(tmp_path / "new.deb", [file("./usr/bin/ls", "ls"), file("./usr/lib/x/z", "z")])
    root = in_every_order(tmp_path, [links, old, new])
    for name in ("bin", "sbin", "lib", "lib64"):
        assert os.readlink(root / name) == f"usr/{name}"
    assert not (root / "lib32").is_symlink()
    assert sorted(path.name for path in (root / "usr/lib/x").iterdir()) == ["y", "z"]
    assert (root / "bin/sh").read_text() == "sh"


def test_the_same_file_in_two_packages_is_one(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [file("./usr/share/x", "same"), link("./usr/share/l", "x")])
    two = write_deb(tmp_path / "two.deb", [file("./usr/share/x", "same"), link("./usr/share/l", "x")])
    assert (in_every_order(tmp_path, [one, two]) / "usr/share/x").read_text() == "same"


@pytest.mark.parametrize(
    "other",
    [
        [file("./usr/share/x", "else")],
        [file("./usr/share/x", "other bytes")],
        [file("./usr/share/x", "same", mode=0o755)],
        [link("./usr/share/x", "y")],
        [file("./usr/share/x/y", "")],
        [directory("./usr/share/x")],
    ],
)
def test_a_conflict_names_both_packages_in_either_order(
    tmp_path: Path, other: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    one = write_deb(tmp_path / "one.deb", [file("./usr/share/x", "same")])
    two = write_deb(tmp_path / "two.deb", other)
    third = write_deb(tmp_path / "zero.deb", [file("./usr/share/z")])
    error = fails_in_every_order(tmp_path, [one, two, third])
    assert error.on == "packages one and two"
    assert error.what.startswith("/usr/share/x is in both")
    assert error.hint


def test_a_package_that_replaces_another_prevails_in_either_order(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [file("./lib/x", "old")])
    two = write_deb(tmp_path / "two.deb", [file("./usr/lib/x", "new")], replaces="zero, one:any (<< 2)")
    assert (in_every_order(tmp_path, [one, two]) / "usr/lib/x").read_text() == "new"


def test_a_diverted_file_stands_where_the_diversion_says(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [file("./bin/x", "diverted")])
    two = write_deb(
        tmp_path / "two.deb",
        [file("./usr/bin/x", "prevails")],
        scripts={"preinst": "dpkg-divert --package two --divert /usr/bin/x.one --rename --add /bin/x\n"},
    )
    root = in_every_order(tmp_path, [one, two])
    assert (root / "usr/bin/x").read_text() == "prevails"
    assert (root / "usr/bin/x.one").read_text() == "diverted"


def test_a_directory_that_is_a_link_in_another_package_is_the_link(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [directory("./usr/share/a"), file("./usr/share/a/1", "1")])
    two = write_deb(
        tmp_path / "two.deb",
        [directory("./usr/share/b"), file("./usr/share/b/2", "2"), link("./usr/share/a", "b")],
    )
    root = in_every_order(tmp_path, [one, two])
    assert os.readlink(root / "usr/share/a") == "b"
    assert sorted(path.name for path in (root / "usr/share/b").iterdir()) == ["1", "2"]


@pytest.mark.parametrize("target", ["nowhere", "a", "a/inner", "../../usr/share/file"])
def test_a_link_that_leads_to_no_packaged_directory_is_a_conflict(tmp_path: Path, target: str) -> None:
    one = write_deb(
        tmp_path / "one.deb",
        [directory("./usr/share/a"), directory("./usr/share/a/inner"), file("./usr/share/file")],
    )
    two = write_deb(tmp_path / "two.deb", [link("./usr/share/a", target)])
    assert fails_in_every_order(tmp_path, [one, two]).on == "packages one and two"


def test_links_in_a_circle_are_a_conflict(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [directory("./a"), directory("./b"), file("./a/x"), file("./b/x")])
    two = write_deb(tmp_path / "two.deb", [link("./a", "b"), link("./b", "a")])
    fails_in_every_order(tmp_path, [one, two])


@pytest.mark.parametrize(
    "bad",
    [
        file("../evil"),
        file("./usr/../../evil"),
        file("/etc/evil"),
        (entry("./dev/sda", tarfile.BLKTYPE), b""),
        (entry("./dev/tty", tarfile.CHRTYPE), b""),
        (entry("./run/pipe", tarfile.FIFOTYPE), b""),
        (entry("./hard", tarfile.LNKTYPE, link="./absent"), b""),
        (entry("./hard", tarfile.LNKTYPE, link="/etc/passwd"), b""),
    ],
)
def test_an_unsafe_package_is_an_integrity_error_that_names_it(
    tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes]
) -> None:
    fine = write_deb(tmp_path / "fine.deb", [file("./usr/fine")])
    evil = write_deb(tmp_path / "wicked.deb", [file("./usr/a"), bad])
    with pytest.raises(IntegrityError) as error:
        make(tmp_path / "root", [fine, evil])
    assert "wicked" in str(error.value)
    assert not (tmp_path / "evil").exists()


def test_links_out_of_the_root_are_never_followed_on_the_host(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    one = write_deb(tmp_path / "one.deb", [link("./etc", str(outside)), link("./var", str(outside))])
    two = write_deb(tmp_path / "two.deb", [directory("./opt/x")])
    root = make(tmp_path / "root", [one, two])
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "passwd").is_file()


def test_a_hard_link_is_a_file_of_its_own_bytes(tmp_path: Path) -> None:
    deb = write_deb(
        tmp_path / "one.deb",
        [
            file("./usr/bin/a", "x", mode=0o755),
            (entry("./usr/bin/b", tarfile.LNKTYPE, link="./usr/bin/a"), b""),
        ],
    )
    assert (make(tmp_path / "root", [deb]) / "usr/bin/b").read_text() == "x"


def test_the_known_files(tmp_path: Path) -> None:
    deb = write_deb(
        tmp_path / "base.deb",
        [
            file("./etc/shadow", "secret"),
            file("./etc/passwd", "other"),
            file("./usr/lib/os-release"),
            directory("./var/run"),
        ],
        description="a base\n of sorts",
    )
    root = make(tmp_path / "root", [deb])
    assert "build:x:1000:1000:build:/build/home:/bin/sh\n" in (root / "etc/passwd").read_text()
    assert (root / "etc/passwd").read_text().startswith("root:x:0:0:")
    assert "build:x:1000:\n" in (root / "etc/group").read_text()
    assert (root / "etc/hostname").read_text() == "lockbuild\n"
    assert not (root / "etc/shadow").exists()
    assert os.readlink(root / "var/run") == "/run"
    assert (root / "etc/os-release").is_file()
    for name in ("build", "dev", "opt", "proc", "root", "run", "sys", "tmp", "var/tmp"):
        assert list((root / name).iterdir()) == []
        assert stat.S_IMODE((root / name).stat().st_mode) == 0o755
    assert (root / "var/lib/dpkg/status").read_text() == (
        "Package: base\nVersion: 1\nArchitecture: all\nDescription: a base\n of sorts\n"
        "Status: install ok installed\n"
    )


def alternative(name: str, link: str, path: str, priority: int, *more: str) -> dict[str, str]:
    call = f"update-alternatives --install {link} {name} {path} {priority} {' '.join(more)}\n"
    return {"postinst": f"#!/bin/sh\nset -e\n{call}"}


def test_alternatives_of_the_highest_priority_that_exist_are_linked(tmp_path: Path) -> None:
    mawk = write_deb(
        tmp_path / "mawk.deb",
        [file("./usr/bin/mawk"), file("./usr/share/man/man1/mawk.1.gz")],
        scripts=alternative(
            "awk",
            "/usr/bin/awk",
            "/bin/mawk",
            5,
            "--slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz",
            "--slave /usr/share/man/de/awk.1.gz awk.de.1.gz /usr/share/man/de/mawk.1.gz",
        ),
    )
    gawk = write_deb(
        tmp_path / "gawk.deb",
        [file("./usr/bin/gawk"), link("./usr/bin/gawk-link", "gawk")],
        scripts=alternative("awk", "/usr/bin/awk", "/usr/bin/gawk-link", 10),
    )
    absent = write_deb(
        tmp_path / "absent.deb", [], scripts=alternative("awk", "/usr/bin/awk", "/usr/bin/nawk", 99)
    )
    root = in_every_order(tmp_path, [mawk, gawk, absent])
    assert os.readlink(root / "usr/bin/awk") == "/etc/alternatives/awk"
    assert os.readlink(root / "etc/alternatives/awk") == "/usr/bin/gawk-link"

    root = make(tmp_path / "only-mawk", [mawk, absent])
    assert os.readlink(root / "etc/alternatives/awk") == "/bin/mawk"
    assert os.readlink(root / "usr/share/man/man1/awk.1.gz") == "/etc/alternatives/awk.1.gz"
    assert not (root / "usr/share/man/de").exists()
    assert not (root / "etc/alternatives/awk.de.1.gz").is_symlink()


def test_equal_alternatives_are_decided_by_their_paths(tmp_path: Path) -> None:
    debs = [
        write_deb(
            tmp_path / f"{name}.deb",
            [file(f"./usr/bin/{name}")],
            scripts=alternative("pager", "/usr/bin/pager", f"/usr/bin/{name}", 50),
        )
        for name in ("more", "less", "most")
    ]
    root = in_every_order(tmp_path, debs)
    assert os.readlink(root / "etc/alternatives/pager") == "/usr/bin/less"


def test_an_alternative_never_takes_the_place_of_a_packaged_file(tmp_path: Path) -> None:
    deb = write_deb(
        tmp_path / "one.deb",
        [file("./usr/bin/js", "the real one"), file("./usr/bin/nodejs")],
        scripts=alternative("js", "/usr/bin/js", "/usr/bin/nodejs", 1),
    )
    assert (make(tmp_path / "root", [deb]) / "usr/bin/js").read_text() == "the real one"


def test_packages_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [])
    with pytest.raises(ResolveError, match="twice"):
        make(tmp_path / "twice", [one, write_deb(tmp_path / "again.deb", [], package="one")])
    arm = write_deb(tmp_path / "arm.deb", [], architecture="arm64")
    with pytest.raises(ResolveError, match="arm64"):
        make(tmp_path / "arm", [one, arm])


def test_progress_is_in_bytes_of_the_packages(tmp_path: Path) -> None:
    debs = [write_deb(tmp_path / f"p{number}.deb", [file(f"./{number}")]) for number in range(5)]
    events: list[Event] = []
    (tmp_path / "root").mkdir()
    debian_root(debs, tmp_path / "root", platform=AMD64, report=events.append)
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.total == sum(deb.stat().st_size for deb in debs)
    assert sum(event.amount for event in events if isinstance(event, Advanced)) == started.total
    assert isinstance(events[-1], Finished)


def test_the_callers_umask_does_not_matter(tmp_path: Path) -> None:
    debs = [
        write_deb(tmp_path / "one.deb", [file("./usr/share/a/b", "1"), file("./bin/x")]),
        write_deb(tmp_path / "two.deb", [file("./usr/share/c/d", "2"), file("./lib/y/z")]),
    ]
    expected = tree_digest(make(tmp_path / "usual", debs))
    before = os.umask(0o077)
    try:
        root = make(tmp_path / "strict", debs)
    finally:
        os.umask(before)
    assert tree_digest(root) == expected
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*") if not path.is_symlink()}
    assert modes == {0o755, 0o644}


def test_a_worker_that_dies_is_an_error_and_leaves_no_process(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def doomed(*arguments, **options):  # type: ignore[no-untyped-def]
        process = real(*arguments, **options)
        process.kill()
        started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", doomed)
    debs = [write_deb(tmp_path / f"p{number}.deb", []) for number in range(3)]
    with pytest.raises(LockbuildError, match="ended without an answer"):
        make(tmp_path / "root", debs)
    assert {process.poll() for process in started} == {-signal.SIGKILL}


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """As after ``kill -9``: nothing writes into the abandoned directory a moment later."""
    content = [file(f"./f{number}", os.urandom(100)) for number in range(8_000)]
    debs = [write_deb(tmp_path / f"p{number}.deb", content, compression="") for number in range(4)]
    root = tmp_path / "root"
    root.mkdir()
    code = (
        "import sys; from pathlib import Path; from lockbuild.environment.unpack import unpack_all\n"
        "unpack_all([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]), done=print)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, root, *debs])
    while not (root / "0").exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(0.3)
    before = sum(1 for _ in root.rglob("*"))
    time.sleep(0.3)
    assert sum(1 for _ in root.rglob("*")) == before < 32_000
