"""A real Debian root and real wheels, made from what this machine's mirrors serve, and lived in."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.config import load
from lockbuild.environment.compose import compose
from lockbuild.environment.debian import debian_root
from lockbuild.environment.materialise import materialise
from lockbuild.events import silent
from lockbuild.fetch import Fetcher
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SandboxSpec
from lockbuild.model.lock import LockedTree
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase, PypiTool
from lockbuild.resolve import ResolveContext, resolve, target_of
from lockbuild.sandbox.bubblewrap import Bubblewrap
from lockbuild.store import Store
from lockbuild.transport.http import Http
from tests.support.sandboxes import shell

pytestmark = [pytest.mark.slow, pytest.mark.network]

AMD64 = Platform.parse("linux/amd64")


@dataclass(frozen=True)
class Fetched:
    """What was locked and fetched: the packages of the base in the lock's order, and every tree with its digest."""

    store: Store
    debs: list[Path]
    trees: list[tuple[LockedTree, Digest]]


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Fetched:
    directory = tmp_path_factory.mktemp("environment")
    store = Store(directory / "store")
    config = load(os.environ)
    with Http(config) as http:
        context = ResolveContext(
            http=http,
            config=config,
            store=store,
            now=datetime.now(UTC),
            project=directory,
            allow_expired=True,
        )
        base = DebianBase.model_validate({"suite": "forky", "packages": ["python3", "file", "libstdc++6"]})
        found = [resolve("base", base, [AMD64], context)]
        context = ResolveContext(
            http=http,
            config=config,
            store=store,
            now=context.now,
            project=directory,
            targets={AMD64: target_of(found[0].sources, AMD64)},
        )
        for name, requirement in (("cmake", "cmake>=3.31,<3.32"), ("ninja", "ninja>=1.13,<1.14")):
            request = PypiTool.model_validate({"from": "pypi", "requirement": requirement})
            found.append(resolve(f"tools.{name}", request, [AMD64], context))
        sources = [source for resolution in found for source in resolution.sources]
        suites = [suite for resolution in found for suite in resolution.suites]
        Fetcher(store, http, config, suites=suites).fetch(sources)
    trees = []
    for resolution in found:
        for tree in resolution.trees:
            own = [source for source in resolution.sources if tree.id in source.trees]
            trees.append((tree, materialise(store, tree, own, report=silent)))
    debs = [store.blob_path(source.sha256) for source in found[0].sources]
    return Fetched(store, debs, trees)


def test_the_root_is_lived_in(fetched: Fetched, tmp_path: Path) -> None:
    environment = compose(fetched.store, AMD64, fetched.trees)
    assert environment.variables["PATH"].startswith("/opt/cmake/bin:/opt/ninja/bin:/usr/local/sbin:")
    spec = SandboxSpec(environment=environment)
    with Bubblewrap(tmp_path / "scratch").session(spec) as session:
        for script, said in [
            ("id -un; id -gn; hostname; getent passwd build", "build\nbuild\nlockbuild\nbuild:x:1000:1000:"),
            (
                "awk 'BEGIN { print 6 * 7 }'; echo a | sed s/a/b/; which sh file",
                "42\nb\n/usr/bin/sh\n/usr/bin/file\n",
            ),
            ("file -bL /bin/sh", "ELF 64-bit"),
            ("python3 -c 'import ssl, sqlite3, lzma, sys; print(sys.version_info[0])'", "3\n"),
            ("perl -e 'print 6 * 7'", "42"),
            ("python3 -c 'import locale, time; print(locale.getlocale()[1], time.tzname[0])'", "UTF-8 UTC\n"),
            ("dpkg-query -W -f '${Status}\\n' libc6", "install ok installed\n"),
            ("echo data > /etc/passwd || echo denied", "denied\n"),
            ("cmake --version", "cmake version 3.31"),
            ("ninja --version", "1.13"),
            ("cmake -E environment | grep -c ^PYTHONPATH= || true", "0\n"),
            (
                "printf 'cmake_minimum_required(VERSION 3.31)\\nproject(p NONE)\\nadd_custom_target(t ALL COMMAND "
                "${CMAKE_COMMAND} -E echo built)\\n' > CMakeLists.txt; cmake -S . -B b -G Ninja >/dev/null "
                "&& cmake --build b",
                "built\n",
            ),
        ]:
            status, output = shell(session, script)
            assert status == 0, f"{script}: {output}"
            assert said in output, f"{script}: {output}"


def test_the_root_holds_exactly_what_dpkg_deb_unpacks(fetched: Fetched, tmp_path: Path) -> None:
    """An independent unpacker, one package after the other, comes to the same files."""
    oracle = tmp_path / "oracle"
    for name in ("bin", "sbin", "lib", "lib64"):
        (oracle / "usr" / name).mkdir(parents=True)
        (oracle / name).symlink_to(f"usr/{name}")
    for deb in fetched.debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as data:
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "-C", oracle], stdin=data.stdout, check=True
            )
        assert data.returncode == 0
    root = fetched.store.tree_path(fetched.trees[0][1])
    expected, found = listing(oracle), listing(root)
    added = {path for path in found.keys() - expected.keys() if not path.startswith("etc/alternatives/")}
    links = {path for path in added if found[path].startswith("link /etc/alternatives/")}
    assert added - links <= {
        "etc/passwd", "etc/group", "etc/hostname", "etc/hosts", "etc/os-release",
        "var/run", "var/lib/dpkg/status",
    }  # fmt: skip
    assert {"usr/bin/awk", "usr/bin/which"} <= links
    assert not [path for path in expected if found.get(path) != expected[path]]


def listing(root: Path) -> dict[str, str]:
    """Every file and link below ``root`` with what it is."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(directory, name)
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = f"link {path.readlink()}"
            elif path.is_file():
                mode = "x" if path.stat().st_mode & 0o111 else "-"
                found[shown] = f"file {mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def test_another_order_and_another_place_give_the_same_root(fetched: Fetched, tmp_path: Path) -> None:
    root = tmp_path / "ünüsual place"
    root.mkdir()
    debian_root(fetched.debs[::-1], root, platform=AMD64, report=silent)
    assert tree_digest(root) == fetched.trees[0][1]


def test_memory_stays_small_whatever_the_packages_are(fetched: Fetched, tmp_path: Path) -> None:
    """Neither this process nor a worker of it takes more than 120 MB."""
    code = (
        "import resource, sys; from pathlib import Path; from lockbuild.environment.debian import debian_root\n"
        "from lockbuild.model.platform import Platform\n"
        "debian_root([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]), "
        "platform=Platform.parse('linux/amd64'), report=lambda event: None)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        # its own RUSAGE_SELF would begin with what the process had that forked it
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
    )
    command = [sys.executable, "-c", code, tmp_path, *fetched.debs]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert all(int(kibibytes) < 120_000 for kibibytes in said.split()), said
