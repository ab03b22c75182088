"""A Debian base root or tool, made from the locked packages without running anything of theirs.

Three steps, each with its own module: unpack every ``data.tar`` by itself (in parallel), merge the
results in the given order, and add what maintainer scripts would have made as far as a build needs it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lockbuild.amounts import count
from lockbuild.archive.rootfs import locate
from lockbuild.descent import below, remove
from lockbuild.environment.known_files import write_known_files
from lockbuild.environment.merge import USR_MERGE, merge
from lockbuild.environment.unpack import Unpacked, unpack_all
from lockbuild.errors import ResolveError, storage_error
from lockbuild.events import Advanced, Finished, Note, Reporter, Started
from lockbuild.model.platform import Platform

_PROCESSES = 2
_WORK = ".lockbuild-packages"
"""Where packages are unpacked before they are merged: in the root itself, so that a move is a rename."""


def debian_root(debs: Sequence[Path], root: Path, *, platform: Platform, report: Reporter) -> None:
    """Make the root file system that ``debs`` give together in the empty directory ``root``.

    The result is a function of the packages and their order: modes 0644 and 0755, everything as
    packaged; owners and times are the store's to set. Progress is in bytes of the packages.

    Raises IntegrityError for a package that is broken or unsafe; ResolveError for one of
    another architecture and for two that hold the same path differently; FetchError for a full disk.
    """
    with merged(debs, root, platform=platform, report=report) as packages:
        for name in write_known_files(root, packages):
            report(Note(f"alternative {name}: nothing that it could lead to is installed", "debug"))


def debian_tool(
    debs: Sequence[Path], root: Path, *, mount: str, platform: Platform, report: Reporter
) -> None:
    """Make what ``debs`` hold together at ``root``/``mount``, to stand apart from the base; programs are in usr/bin.

    Absolute links that lead to something in these packages lead there; nothing is added for maintainer scripts.
    Errors are those of `debian_root`.
    """
    tool = root / mount.strip("/")
    with _making(root):
        tool.mkdir(parents=True, exist_ok=True)
    with merged(debs, tool, platform=platform, report=report):
        for name in USR_MERGE:
            if (tool / name).is_symlink():
                (tool / name).unlink()
        for name in ("bin", "sbin", "lib"):
            if not any((tool / "usr" / name).iterdir()):
                (tool / "usr" / name).rmdir()
        _turn_links(tool, mount)


@contextmanager
def merged(
    debs: Sequence[Path], root: Path, *, platform: Platform, report: Reporter
) -> Iterator[Sequence[Unpacked]]:
    """What ``debs`` hold, merged into the directory ``root``; the body may go on with it."""
    key = f"unpack {root}"
    sizes = {deb: deb.stat().st_size for deb in debs}
    report(Started(key, f"unpack {count(len(debs), 'package')}", sum(sizes.values())))
    work = root / _WORK
    try:
        with _making(root):
            work.mkdir()
            packages = unpack_all(
                debs, work, processes=_PROCESSES, done=lambda deb: report(Advanced(key, sizes[deb]))
            )
            _check(packages, platform)
            merge(packages, root)
            remove(work)
            yield packages
    finally:
        report(Finished(key))


@contextmanager
def _making(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(error, "cannot unpack the packages", on=str(root)) from error


def _check(packages: Sequence[Unpacked], platform: Platform) -> None:
    seen: set[str] = set()
    for package in packages:
        if package.package in seen:
            raise ResolveError("the package is there twice", on=package.package, hint="lock it again")
        seen.add(package.package)
        if package.architecture not in ("all", platform.debian_architecture):
            raise ResolveError(
                f"the package is for {package.architecture}, the root for {platform.debian_architecture}",
                on=package.package,
                hint="lock it again",
            )


def _turn_links(tool: Path, mount: str) -> None:
    """Let absolute links that lead to a path of the packages themselves lead there."""
    turned = []
    for name, status in below(tool):
        if stat.S_ISLNK(status.st_mode) and (target := str((tool / name).readlink())).startswith("/"):
            real = _merged_path(target)
            if _stands(tool, real):
                turned.append((tool / name, f"/{mount.strip('/')}{real}"))
    for link, target in turned:
        link.unlink()
        link.symlink_to(target)


def _stands(root: Path, path: str) -> bool:
    """Whether something, or a link, is at ``path`` of ``root``."""
    directory, _, name = path.rpartition("/")
    parent = locate(root, directory)
    return parent is not None and os.path.lexists(parent / name)


def _merged_path(path: str) -> str:
    """An absolute path as it is after the usr-merge."""
    top, _, rest = path.lstrip("/").partition("/")
    return f"/{USR_MERGE.get(top, top)}/{rest}".rstrip("/")
