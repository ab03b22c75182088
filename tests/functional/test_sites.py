"""Sites behind firewalls get the same environment and the same bytes, and connect to what they are told to only."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.support.command import Result
from tests.support.engine import PrivateEngine
from tests.support.examples import NAMES, Examples, copy
from tests.support.http_server import make_certificate
from tests.support.proxy import proxying
from tests.support.registry import registry
from tests.support.sites import site
from tests.support.tiny import tiny_world
from tests.support.users import ORDINARY, python_for_everyone

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root makes network namespaces")


def test_a_site_records_whoever_tries_to_get_out(tmp_path: Path) -> None:
    reaching = (
        "import socket\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('198.51.100.9', 53))\n"
        "for family, host in ((socket.AF_INET, '198.51.100.1'), (socket.AF_INET6, '2001:db8:1::1')):\n"
        "    far = socket.socket(family)\n"
        "    far.settimeout(0.2)\n"
        "    try: far.connect((host, 443))\n"
        "    except OSError: pass\n"
        "near = socket.create_server(('127.0.0.1', 5000))\n"
        "socket.create_connection(('127.0.0.1', 5000))\n"
    )
    with site(tmp_path) as place:
        with place.inside():
            subprocess.run(["python3", "-c", reaching], check=True, timeout=30)
        time.sleep(0.2)
        assert place.attempts == {
            "udp 198.51.100.9 53",
            "tcp 198.51.100.1 443",
            "tcp 2001:db8:1::1 443",
            "tcp 127.0.0.1 5000",
        }
    assert not Path(f"/run/netns/{place.namespace}").exists()


def test_a_site_with_mirrors_and_one_with_nothing(tmp_path: Path) -> None:
    """The one asks its mirrors, and nobody else; the other, which got a bundle from there, asks nobody."""
    with site(tmp_path) as first, first.inside(), tiny_world(tmp_path / "world") as world:
        world.run("lock", "--materialise")
        world.run("reproduce", "--record")
        bundle = tmp_path / "tiny.bundle"
        world.run("bundle", "create", "--with", "both", "-o", bundle)
        assert first.attempts == {f"tcp 127.0.0.1 {world.server.url.rpartition(':')[2]}"}
    with site(tmp_path) as second, second.inside():
        store = tmp_path / "another store"
        world.run("bundle", "load", bundle, store=store)
        result = world.run("reproduce", "--check-hash", store=store)
        assert "reproduced, as the lock records" in result.out
        assert second.attempts == set()


def test_a_site_with_nothing_but_a_proxy(tmp_path: Path) -> None:
    """A proxy that wants a password and has a certificate of the site's own authority."""
    own = make_certificate(tmp_path / "proxy")
    with (
        tiny_world(tmp_path / "world") as world,
        site(tmp_path) as place,
        proxying(certificate=own, credentials=("paul", "f00 bar"), inside=place.inside()) as proxy,
        place.inside(),
    ):
        config = world.config.read_text()
        world.config.write_text(f'{config}ca = ["{own.with_name("certificate.pem")}"]\n')
        behind = {"http_proxy": proxy.url.replace("://", "://paul:f00%20bar@")}
        world.run("lock", "--materialise", environ=behind)
        world.run("reproduce", "--record", environ=behind)
        world.run("reproduce", "--check-hash", environ=behind, store=tmp_path / "another store")
        lock = (world.project / "lockbuild.lock").read_text()
        assert "paul" not in lock
        assert proxy.url not in lock
        assert any("/pool/" in target for target in proxy.targets)
        wrong = world.run(
            "sync", environ=behind | {"http_proxy": proxy.url}, store=tmp_path / "third", status=4
        )
        assert "407" in wrong.err
        assert place.attempts == {f"tcp 127.0.0.1 {proxy.url.rpartition(':')[2]}"}


def test_a_site_with_nothing_but_a_registry(tmp_path: Path) -> None:
    """What another site pushed is enough to sync and to reproduce; nobody looks for a mirror or a name."""
    with tiny_world(tmp_path / "world") as world:
        config = world.config.read_text()
        with registry(tmp_path / "registry") as there:
            world.run("lock", "--materialise")
            world.run("reproduce", "--record")
            world.run("cache", "push", f"{there.host}/team/cache")
        with (
            site(tmp_path) as place,
            place.inside(),
            registry(tmp_path / "registry", tls=True, password=True) as here,
        ):
            cache = f'[cache]\nread = ["{here.host}/team/cache"]\n'
            world.config.write_text(f'{config}ca = ["{here.certificate}"]\n{cache}')
            login = here.docker_config(tmp_path / "login")
            result = world.run("reproduce", "--check-hash", store=tmp_path / "another store", environ=login)
            assert "reproduced, as the lock records" in result.out
            assert place.attempts == {f"tcp 127.0.0.1 {here.host.rpartition(':')[2]}"}


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.docker
@pytest.mark.timeout(2400)
def test_a_site_with_nothing_but_bundles(examples: Examples, engine: PrivateEngine, tmp_path: Path) -> None:
    """All examples, by another user with an empty home, an empty store, another path and umask; each back-end."""
    first, *others = NAMES
    with stranger() as there, site(tmp_path) as place:
        bundles = {name: there.directory / f"{name}.bundle" for name in NAMES}
        examples.run(first, "bundle", "create", "-o", bundles[first])
        for name in others:
            examples.run(name, "bundle", "create", "--since", bundles[first], "-o", bundles[name])
            assert bundles[name].stat().st_size < bundles[first].stat().st_size / 20
        for name in NAMES:
            copy(examples.projects / name, there.directory / "elsewhere" / name)
        there.own()
        engine.open_to_all()
        with place.inside():
            for name in NAMES:
                there.run("bundle", "load", str(bundles[name]))
            for backend, name in product(("bubblewrap", "docker"), NAMES):
                common = ("--project", str(there.directory / "elsewhere" / name), "--backend", backend)
                there.run("sync", "--offline", *common, environ=engine.environ)
                result = there.run("reproduce", "--check-hash", "--offline", *common, environ=engine.environ)
                assert "reproduced, as the lock records" in result.out
        assert place.attempts == set()


@dataclass(frozen=True)
class Stranger:
    """An ordinary user who has nothing yet; ``directory`` is theirs, with their home and their store."""

    directory: Path

    def own(self) -> None:
        """Give them what was put into their directory."""
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(self.directory)], check=True)

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> Result:
        """Run lockbuild as that user, with their store."""
        program, python = python_for_everyone(self.directory.parent)
        argv = [program, "-m", "lockbuild", "--store", str(self.directory / "store"), *arguments]
        done = subprocess.run(
            argv,
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=[],
            umask=0o007,
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.directory / "home"),
                "PYTHONHASHSEED": "4711",
                **python,
                **(environ or {}),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        result = Result(argv, done)
        assert result.status == 0, result
        return result


@contextmanager
def stranger() -> Iterator[Stranger]:
    """A user whose directory is gone afterwards."""
    # Not below pytest's directories, which only their owner may enter.
    with tempfile.TemporaryDirectory(prefix="lb-stranger-") as name:
        Path(name).chmod(0o755)
        made = Stranger(Path(name) / "all")
        (made.directory / "home").mkdir(parents=True)
        yield made
