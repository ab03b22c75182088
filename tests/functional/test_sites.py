"""Sites behind firewalls get the same environment and the same bytes, and connect to what they are told to only."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.sites import site

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
