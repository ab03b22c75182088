"""Locking what this machine's own mirror serves today, and comparing with what apt would install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.errors import ResolveError
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase, DebianSourceRequest
from lockbuild.resolve import ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http

pytestmark = [pytest.mark.slow, pytest.mark.network]

PACKAGES = ["emscripten", "file", "python3"]
AMD64 = Platform("linux", "amd64")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("real") / "store")


@pytest.fixture
def context(store: Store, tmp_path: Path) -> ResolveContext:
    # Whatever this machine's apt was told of expired indexes: each test says for itself what it takes.
    config = Config.model_validate({"debian": {"allow-expired": False}})
    return ResolveContext(Http(config), config, store, datetime.now(UTC), tmp_path)


def test_the_compilers_closure_is_what_apt_installs(context: ResolveContext, tmp_path: Path) -> None:
    request = DebianBase(suite="forky", packages=PACKAGES, allow_expired=True)
    first = resolve("base", request, [AMD64], context)
    assert resolve("base", request, [AMD64], context) == first

    locked = {}
    for source in first.sources:
        match = re.match(r"pkg:deb/debian/([^@]+)@([^?]+)\?arch=(amd64|all)&distro=forky$", source.purl)
        assert match, source.purl
        locked[match[1].replace("%2B", "+")] = match[2].replace("%2B", "+")
        assert source.path is not None
        assert source.path.startswith("pool/main/")
    assert len(locked) == len(first.sources) > 100
    assert {"emscripten", "libc6", "base-files", "nodejs"} <= locked.keys()

    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt to compare with")
    installed = _as_apt(tmp_path / "apt", context.config)
    assert {name: installed[name] for name in locked.keys() & installed.keys()} == {
        name: locked[name] for name in locked.keys() & installed.keys()
    }
    # Where several packages can serve, apt decides in the order in which it comes upon them. So far the two
    # sets have been the same; a few differences would be no fault.
    assert len(locked.keys() ^ installed.keys()) <= 4, locked.keys() ^ installed.keys()


def _as_apt(root: Path, config: Config) -> dict[str, str]:
    """Package -> version: what apt installs into nothing, without recommended packages."""
    for directory in (
        "etc/apt",
        "var/lib/apt/lists/partial",
        "var/lib/dpkg",
        "var/cache/apt/archives/partial",
    ):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "etc/apt/sources.list").write_text(
        f"deb [signed-by={config.debian_keyring()}] {config.debian_mirrors()[0]} forky main\n"
    )
    settings = root / "apt.conf"
    settings.write_text(
        f'Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Architecture "amd64";\n'
        'APT::Architectures "amd64"; APT::Install-Recommends "false"; Acquire::Check-Valid-Until "false";\n'
        'Acquire::Languages "none"; APT::Sandbox::User ""; Debug::NoLocking "true";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(settings), "LC_ALL": "C.UTF-8"}

    def run(*command: str) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("apt-get", "update")
    available = run("apt-cache", "dumpavail")
    essential = re.findall(r"^Package: (\S+)\n(?:.+\n)*?Essential: yes$", available, re.MULTILINE)
    assert "base-files" in essential
    plan = run("apt-get", "install", "--simulate", "--no-install-recommends", *PACKAGES, *essential)
    return dict(re.findall(r"^Inst (\S+) \((\S+)", plan, re.MULTILINE))


def test_an_expired_mirror_is_not_believed_unasked(context: ResolveContext) -> None:
    request = DebianBase(suite="forky", packages=["file"])
    try:
        resolution = resolve("base", request, [AMD64], context)
    except ResolveError as error:
        assert "expired" in error.what  # noqa: PT017  a mirror that is up to date is as good
        accepted = resolve("base", request.model_copy(update={"allow_expired": True}), [AMD64], context)
        assert accepted.suites[0].expired == "accepted"
    else:
        assert resolution.suites[0].expired is None


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("zlib", r"pool/main/z/zlib/zlib_1\.[\w.+-]+\.orig\.tar\.\w+"),
        ("sqlite3", r"pool/main/s/sqlite3/sqlite3_3\.[\w.+-]+\.orig\.tar\.\w+"),
        ("lua5.4", r"pool/main/l/lua5\.4/lua5\.4_5\.4\.[\w.+-]+\.orig\.tar\.\w+"),
    ],
)
def test_upstream_sources(context: ResolveContext, package: str, file: str) -> None:
    request = DebianSourceRequest(from_="debian-source", package=package, suite="trixie")
    resolution = resolve(f"sources.{package}", request, [AMD64], context)
    (source,) = resolution.sources
    assert re.fullmatch(file, source.path or "")
    assert (source.size or 0) > 100_000
    assert source.trees == [f"any:sources.{package}"]
    assert resolution.suites[0].codename == "trixie"


def test_a_closure_for_another_architecture(context: ResolveContext) -> None:
    request = DebianBase(suite="trixie", packages=["python3"])
    resolution = resolve("base", request, [AMD64, Platform("linux", "arm64")], context)
    shared = [source for source in resolution.sources if len(source.trees) == 2]
    assert {source.purl.partition("arch=")[2].partition("&")[0] for source in shared} == {"all"}
    assert any("arch=arm64" in source.purl for source in resolution.sources)
