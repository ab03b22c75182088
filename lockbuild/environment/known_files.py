"""The few files that a Debian root lacks when no maintainer script has run, and what they are here.

They are the same for every root of one set of packages: accounts (the build user of
`lockbuild.model.environment`), host names, empty directories, the links of ``update-alternatives(1)``
and dpkg's list of installed packages (so that ``dpkg-query`` and vulnerability scanners read an
image made from the root). Nothing that only speeds a system up is made, as ``ld.so.cache``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from lockbuild.archive.rootfs import locate, plain_directory
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.environment.maintainer import Alternative, AlternativeLink
from lockbuild.environment.unpack import Unpacked
from lockbuild.model.environment import GID, HOME_DIR, HOSTNAME, UID

DIRECTORIES = ("build", "dev", "opt", "proc", "root", "run", "sys", "tmp", "var/tmp", "etc/alternatives")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    f"build:x:{UID}:{GID}:build:{HOME_DIR}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\nbuild:x:{GID}:\nnogroup:x:65534:\n",
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/hosts": f"127.0.0.1\tlocalhost {HOSTNAME}\n::1\tlocalhost ip6-localhost ip6-loopback\n",
}
ABSENT = ("etc/shadow", "etc/gshadow")
_LINKS = {
    # base-files makes the first from the empty directory that it ships; os-release once was its own, too
    "var/run": "/run",
    "etc/os-release": "../usr/lib/os-release",
}


def write_known_files(root: Path, packages: Sequence[Unpacked]) -> list[str]:
    """Write them into the merged ``root``; the names of alternatives that lead nowhere, in order.

    Accounts and host names replace what a package ships; a link yields to a file that is there.
    """
    with TreeWriter(root, origin="the base root", rooted=True) as writer:
        for name in DIRECTORIES:
            writer.directory(name)
        for name, text in FILES.items():
            writer.file(name, text.encode(), executable=False)
        for name in ABSENT:
            parent, _, last = name.rpartition("/")
            directory = locate(root, parent)
            if directory is not None and _mode(directory / last) is not None:
                (directory / last).unlink()
        run = plain_directory(root, "/var/run")
        if run is not None and not any(run.iterdir()):
            run.rmdir()
        for name, target in _LINKS.items():
            if not _stands(root, f"/{name}"):
                writer.symlink(name, target)
        writer.file("var/lib/dpkg/status", status_of(packages), executable=False)
        return link_alternatives(
            root, writer, (alternative for package in packages for alternative in package.alternatives)
        )


def link_alternatives(root: Path, writer: TreeWriter, candidates: Iterable[Alternative]) -> list[str]:
    """Set them; the names of those that lead nowhere, in order.

    For each name the highest priority wins; of equal ones the path that sorts first."""
    best: dict[str, Alternative] = {}
    nowhere: set[str] = set()
    for candidate in candidates:
        name = candidate.master.name
        if locate(root, candidate.master.path) is None:
            nowhere.add(name)
            continue
        other = best.get(name)
        if other is None or _rank(candidate) < _rank(other):
            best[name] = candidate
    for name in sorted(best):
        winner = best[name]
        for link in (winner.master, *winner.slaves):
            if locate(root, link.path) is not None:
                _link(root, writer, link)
    return sorted(nowhere - set(best))


def _rank(candidate: Alternative) -> tuple[int, str]:
    return -candidate.priority, candidate.master.path


def _link(root: Path, writer: TreeWriter, link: AlternativeLink) -> None:
    """As update-alternatives has it: a link at the place is replaced, a real file is left alone."""
    directory, _, name = link.link.rpartition("/")
    parent = locate(root, directory)
    if parent is not None:
        mode = _mode(parent / name)
        if not parent.is_dir() or (mode is not None and not stat.S_ISLNK(mode)):
            return
    writer.symlink(f"etc/alternatives/{link.name}", link.path)
    writer.symlink(link.link.lstrip("/"), f"/etc/alternatives/{link.name}")


def _stands(root: Path, name: str) -> bool:
    directory, _, last = name.rpartition("/")
    parent = locate(root, directory)
    return parent is not None and _mode(parent / last) is not None


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def status_of(packages: Sequence[Unpacked]) -> bytes:
    """``/var/lib/dpkg/status``: each control paragraph, as installed."""
    paragraphs = []
    for package in sorted(packages, key=lambda package: package.package):
        control = package.control.strip("\n")
        paragraphs.append(f"{control}\nStatus: install ok installed\n")
    return "\n".join(paragraphs).encode("utf-8", "surrogateescape")
