"""apt's configuration is read as apt reads it: real files, and the real apt-config where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from lockbuild.config import apt

NO_APT = {"PATH": "/nonexistent"}


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    directory = tmp_path / "root" / "etc" / "apt"
    (directory / "sources.list.d").mkdir(parents=True)
    return directory


@pytest.fixture(params=["apt-config", "without apt"])
def environ(request: pytest.FixtureRequest, etc: Path, tmp_path: Path) -> Mapping[str, str]:
    """Both ways to find the files must give the same."""
    if request.param == "without apt":
        return NO_APT
    if shutil.which("apt-config") is None:
        pytest.skip("there is no apt here")
    # The root that apt-config gives is looked up below the root of the call.
    configuration = tmp_path / "apt.conf"
    configuration.write_text('Dir "/"; Dir::Etc "etc/apt";\n')
    return {"PATH": os.environ["PATH"], "APT_CONFIG": str(configuration)}


def mirrors(etc: Path, environ: Mapping[str, str]) -> list[str]:
    return apt.archive_mirrors(environ, root=etc.parent.parent)


def test_a_machine_without_apt_has_nothing(tmp_path: Path) -> None:
    assert apt.archive_mirrors(NO_APT, root=tmp_path) == []
    assert apt.snapshot_service(NO_APT, root=tmp_path) is None
    keyring = apt.keyring(NO_APT, root=tmp_path)
    assert keyring.name.startswith("debian-archive-keyring")
    assert not keyring.exists()


def test_reads_deb822_and_one_line_files_in_order(etc: Path, environ: Mapping[str, str]) -> None:
    (etc / "sources.list").write_text(
        "# deb http://commented.example.test/debian forky main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://one.example.test/debian/ forky main contrib # why\n"
        "deb-src http://src.example.test/debian trixie main\n"
        "deb cdrom:[Debian 13]/ trixie main\n"
        "deb http://broken.example.test/debian\n"
    )
    (etc / "sources.list.d" / "b.sources").write_text(
        "Types: deb deb-src\n"
        "# a comment in between\n"
        "URIs: http://two.example.test/debian\n"
        "  https://user:secret@three.example.test/mirror/debian/\n"
        "Suites: bookworm bookworm-updates\n"
        "Components: main\n"
        "\n"
        "Enabled: no\n"
        "Types: deb\n"
        "URIs: http://disabled.example.test/debian\n"
        "Suites: sid\n"
        "Components: main\n"
    )
    (etc / "sources.list.d" / "c.list").write_text("deb http://one.example.test/debian sid main\n")
    (etc / "sources.list.d" / "d.list.save").write_text("deb http://old.example.test/debian sid main\n")
    assert mirrors(etc, environ) == [
        "http://one.example.test/debian",
        "http://src.example.test/debian",
        "http://two.example.test/debian",
        "https://user:secret@three.example.test/mirror/debian",
    ]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("deb http://m.example.test/debian trixie main", True),
        ("deb http://m.example.test/debian stable main", True),
        ("deb http://m.example.test/debian trixie-backports main", True),
        ("deb http://m.example.test/artifacts/debian-remote/ forky main", True),
        ("deb http://m.example.test/archive/debian/20260101T000000Z/ forky main", True),
        ("deb file:/srv/debian forky main", True),
        (
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://m.example.test/x duke main",
            True,
        ),
        (
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://m.example.test/x new main",
            True,
        ),
        ("deb http://m.example.test/debian-security trixie-security main", False),
        ("deb http://m.example.test/debian-debug trixie-debug main", False),
        ("deb http://m.example.test/linux/debian bookworm stable", False),
        ("deb http://m.example.test/apt vendor-bookworm main", False),
        ("deb http://m.example.test/php bookworm main", False),
        ("deb http://m.example.test/ubuntu noble main", False),
        ("deb ftp://m.example.test/debian trixie main", False),
    ],
)
def test_tells_debian_from_others(etc: Path, line: str, counts: bool) -> None:
    (etc / "sources.list").write_text(line + "\n")
    assert bool(mirrors(etc, NO_APT)) == counts


def test_follows_a_list_of_mirrors(etc: Path, tmp_path: Path) -> None:
    listed = tmp_path / "mirrors"
    listed.write_text("http://a.example.test/debian\tpriority:1\n# none\nhttp://b.example.test/debian\n")
    (etc / "sources.list").write_text(
        f"deb mirror+file:{listed} trixie main\ndeb mirror+file:/none trixie main\n"
    )
    assert mirrors(etc, NO_APT) == ["http://a.example.test/debian", "http://b.example.test/debian"]


def test_finds_the_snapshot_service_in_a_comment(etc: Path, environ: Mapping[str, str]) -> None:
    (etc / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\n"
        "# http://old.example.test/archive/debian-security/20250520T000000Z\n"
        "# http://old.example.test/archive/debian/20250520T000000Z\n"
        "URIs: http://m.example.test/debian\nSuites: trixie\nComponents: main\n"
    )
    service = apt.snapshot_service(environ, root=etc.parent.parent)
    assert service == "http://old.example.test/archive/debian"
    assert apt.snapshot_url(service, "20260101T000000Z") == f"{service}/20260101T000000Z"


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="apt-config is what reads it")
def test_finds_the_snapshot_service_in_apts_settings(etc: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "apt.conf"
    environ = {"PATH": os.environ["PATH"], "APT_CONFIG": str(configuration)}
    setting = 'Dir "/"; Acquire::Snapshots::URI::Override::Label::Debian "{}";\n'
    configuration.write_text(setting.format("https://s.example.test/archive/debian/@SNAPSHOTID@/"))
    assert apt.snapshot_service(environ, root=etc.parent.parent) == "https://s.example.test/archive/debian"
    configuration.write_text(setting.format("https://s.example.test/@SNAPSHOTID@/debian/"))
    service = apt.snapshot_service(environ, root=etc.parent.parent)
    assert service is not None
    assert apt.snapshot_url(service, "20260101T000000Z") == "https://s.example.test/20260101T000000Z/debian"


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="apt-config is what reads it")
def test_files_may_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "own.list").write_text("deb http://m.example.test/debian trixie main\n")
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir "{tmp_path}"; Dir::Etc "."; Dir::Etc::sourcelist "{tmp_path}/own.list"; Dir::Etc::sourceparts "none";\n'
    )
    environ = {"PATH": os.environ["PATH"], "APT_CONFIG": str(configuration)}
    assert apt.archive_mirrors(environ) == ["http://m.example.test/debian"]


def test_takes_the_keyring_that_the_source_names(etc: Path, tmp_path: Path) -> None:
    named = tmp_path / "company.gpg"
    (etc / "sources.list").write_text(f"deb [signed-by={named}] http://m.example.test/debian trixie main\n")
    usual = etc.parent.parent / "usr" / "share" / "keyrings" / "debian-archive-keyring.gpg"
    usual.parent.mkdir(parents=True)
    usual.touch()
    assert apt.keyring(NO_APT, root=etc.parent.parent) == usual
    named.touch()
    assert apt.keyring(NO_APT, root=etc.parent.parent) == named


@pytest.mark.parametrize(
    ("value", "accepted"), [("false", True), ("No", True), ("0", True), ("true", False), ("1", False)]
)
def test_the_administrator_may_accept_expired_indexes(tmp_path: Path, value: str, accepted: bool) -> None:
    if shutil.which("apt-config") is None:
        pytest.skip("there is no apt here")
    configuration = tmp_path / "apt.conf"
    configuration.write_text(f'#clear Acquire::Check-Valid-Until;\nAcquire::Check-Valid-Until "{value}";\n')
    environ = {"PATH": os.environ["PATH"], "APT_CONFIG": str(configuration)}
    # What stands in apt.conf.d of the machine comes before a file that APT_CONFIG names in apt's order or after
    # it, so the parts are looked for elsewhere.
    configuration.write_text(f'Dir::Etc::parts "/nonexistent";\n{configuration.read_text()}')
    assert apt.accepts_expired(environ) is accepted
    assert apt.accepts_expired({"PATH": "/nonexistent"}) is False
