"""Sites behind firewalls get the same environment and the same bytes, and connect to what they are told to only."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.http_server import make_certificate
from tests.support.proxy import proxying
from tests.support.sites import site
from tests.support.tiny import tiny_world

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
