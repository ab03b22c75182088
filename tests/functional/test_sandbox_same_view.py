"""Processes see the same in both isolating back-ends, and whoever calls."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.sandbox.bubblewrap import Bubblewrap
from tests.support.busybox import make_spec
from tests.support.sandboxes import Sandbox, shell
from tests.support.users import ORDINARY, as_ordinary_user

PROBE = r"""
echo "ids $(id -u) $(id -g)"
umask
env | grep -v '^_=' | sort
hostname
pwd
readlink /proc/self/fd/0
grep -E '^(NoNewPrivs|Cap(Inh|Prm|Eff|Bnd|Amb)):' /proc/self/status
for d in / /opt /build /build/source /build/build /build/home /tmp /dev/shm /sys; do
    echo "$d: $(ls -A "$d" | grep -v -x .dockerenv | tr '\n' ' ')"
done
ls /proc/self/fd | wc -l
# Who owns the trees cannot be the same: an ordinary user has only one id to give.
stat -c '%n %F %a' / /usr /usr/bin/busybox /opt /opt/tool /opt/tool/bin/greet /etc /dev /dev/shm
stat -c '%n %F %a %u:%g %Y' /tmp /build/build /build/home
find /build/source | sort | while read -r f; do stat -c '%n %F %a %u:%g %s %Y' "$f"; done
greet
grep -c . /proc/net/dev
grep -o '^ *[a-z0-9]*:' /proc/net/dev
ls /proc/self/net/route && cat /proc/net/route | wc -l
for address in 192.0.2.1 1.1.1.1 169.254.169.254; do nc -w 2 $address 80 </dev/null; echo "connect: $?"; done
ping -c 1 -w 1 127.0.0.1 >/dev/null 2>&1; ip addr show lo 2>/dev/null | grep -o 'LOOPBACK,UP'
for d in / /usr /usr/bin /etc /opt /opt/tool /opt/tool/bin /build /build/source /build/source/scripts /root /var \
    /var/lib /run /sys /proc /dev /build/build /build/home /tmp /dev/shm; do
    if (: >"$d/probe") 2>/dev/null; then echo "$d writable"; rm "$d/probe"; else echo "$d read-only"; fi
done
for d in /usr/bin /opt/tool/bin /build/source; do touch "$d/probe" 2>&1; done
rm -f /build/source/main.c 2>&1; chmod 777 /build/source/main.c 2>&1; echo x 2>&1 >>/build/source/main.c
: >/build/build/new; mkdir /tmp/dir; stat -c '%n %a %u:%g' /build/build/new /tmp/dir
"""


def view(sandbox: Sandbox) -> str:
    with sandbox.backend.session(sandbox.spec) as session:
        status, text = shell(session, PROBE)
    assert status == 0, text
    return text


@pytest.fixture
def ordinary_user_view() -> Iterator[str]:
    """What an ordinary user sees, whose umask and environment are hostile."""
    work = Path(tempfile.mkdtemp(prefix="lb-user-"))
    try:
        spec = make_spec(work)
        (work / "scratch").mkdir()
        for path in [work, *work.rglob("*")]:
            os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)
        yield as_ordinary_user(lambda: view(Sandbox(Bubblewrap(work / "scratch"), spec)))
        assert list((work / "scratch").iterdir()) == []
    finally:
        shutil.rmtree(work)


def test_what_bubblewrap_shows_is_what_was_specified(bubblewrap: Sandbox) -> None:
    lines = view(bubblewrap).splitlines()
    assert lines[:9] == [
        "ids 1000 1000",
        "0022",
        "BUILD=/build/build",
        "HOME=/build/home",
        "PATH=/opt/tool/bin:/usr/bin",
        "PWD=/build/build",  # from busybox's shell itself
        "SHLVL=1",
        "SOURCE=/build/source",
        "lockbuild",
    ]
    assert "/build: build home source " in lines
    assert "/build/source main.c" not in lines
    assert "/build/source/main.c regular file 644 1000:1000 13 0" in lines
    assert "/tmp directory 1777 1000:1000 0" in lines
    assert "greetings from /opt/tool/bin/greet" in lines
    writable = {line.split()[0] for line in lines if line.endswith(" writable")}
    assert writable == {"/build/build", "/build/home", "/tmp", "/dev/shm"}
    assert lines.count("connect: 1") == 3
    assert "touch: /usr/bin/probe: Read-only file system" in lines


@pytest.mark.docker
def test_docker_shows_the_same_as_bubblewrap(bubblewrap: Sandbox, docker: Sandbox) -> None:
    assert view(docker) == view(bubblewrap)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_root_shows_the_same_as_an_ordinary_user(bubblewrap: Sandbox, ordinary_user_view: str) -> None:
    assert ordinary_user_view == view(bubblewrap)


def test_the_probe_tells_sandboxes_apart(bubblewrap: Sandbox, tmp_path: Path) -> None:
    other = make_spec(tmp_path / "other")
    (other.inputs[0].directory / "main.c").write_text("changed\n")
    assert view(Sandbox(bubblewrap.backend, other)) != view(bubblewrap)
