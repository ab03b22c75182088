"""Debian packages on top of a root that has packages already, as dpkg would add them, or not at all.

Nothing of a package is executed. Files that no package of the root owns give way, as they do to dpkg; where another
package owns one, the new one must replace that (Debian Policy 7.6.1), or have the same file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from lockbuild.archive import dpkg_status
from lockbuild.archive.rootfs import locate
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.environment.debian import merged
from lockbuild.environment.known_files import link_alternatives, status_of
from lockbuild.environment.merge import USR_MERGE, same_file
from lockbuild.environment.unpack import Unpacked
from lockbuild.errors import ResolveError, storage_error
from lockbuild.events import Reporter
from lockbuild.model.platform import Platform

_WORK = ".lockbuild-overlay"
"""Where the packages are merged with one another: in the root itself, so that a move is a rename."""


def add_packages(debs: Sequence[Path], root: Path, *, platform: Platform, report: Reporter) -> None:
    """Add what ``debs`` hold to ``root``, and their names to its list of packages.

    Alternatives that the root has set stay; of others the packages' own are set. Errors as those of `debian_root`.
    """
    overlay = root / _WORK
    listed = read_list(root) or b""
    try:
        overlay.mkdir()
        with merged(debs, overlay, platform=platform, report=report) as packages:
            _Overlay(root, packages).lay(overlay)
    except OSError as error:
        raise storage_error(error, "cannot add the packages", on=str(root)) from error
    with TreeWriter(root, origin="the base root", rooted=True) as writer:
        link_alternatives(
            root,
            writer,
            (
                alternative
                for package in packages
                for alternative in package.alternatives
                if locate(root, f"/etc/alternatives/{alternative.master.name}") is None
            ),
        )
        both = listed.rstrip(b"\n") + b"\n\n" + status_of(packages)
        writer.file(dpkg_status.STATUS, both.lstrip(b"\n"), executable=False)


def read_list(root: Path) -> bytes | None:
    """The list of packages that ``root`` has (`dpkg_status`); None where it has none, or links lead to it."""
    here = root
    for name in dpkg_status.DIRECTORY.decode().split("/"):
        here /= name
        if not _is(here, stat.S_ISDIR):
            return None
    files: dict[bytes, bytes] = {}
    for directory in (here, here / "status.d"):
        if not _is(directory, stat.S_ISDIR):
            continue
        for file in directory.iterdir():
            path = os.fsencode(file.relative_to(root))
            if dpkg_status.is_list(path) and _is(file, stat.S_ISREG):
                files[path] = file.read_bytes()
    return dpkg_status.package_list(files)


class _Overlay:
    """Packages, merged with one another, that are laid over ``root``."""

    def __init__(self, root: Path, packages: Sequence[Unpacked]) -> None:
        self._root = root
        self._packages = packages

    def lay(self, overlay: Path) -> None:
        """Move everything below the directory ``overlay`` to where it belongs in the root; nothing is left of it."""
        for name in USR_MERGE:
            if (overlay / name).is_symlink() and os.path.lexists(self._root / name):
                (overlay / name).unlink()
        pending = [("", overlay)]
        directories: list[Path] = []
        while pending:
            path, source = pending.pop()
            directories.append(source)
            target = self._directory(path)
            for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
                child = f"{path}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append((child, Path(entry.path)))
                else:
                    self._file(child, Path(entry.path), target / entry.name)
        for directory in reversed(directories):
            directory.rmdir()

    def _directory(self, path: str) -> Path:
        """Where the directory ``path`` really is; made where it is missing."""
        found = locate(self._root, path)
        if found is None:
            parent, _, name = path.rpartition("/")
            found = self._directory(parent) / name
            if os.path.lexists(found):
                raise self._conflict(path, "a link that leads nowhere and a directory")
            found.mkdir()
            found.chmod(0o755)
        elif not found.is_dir():
            raise self._conflict(path, "a file and a directory")
        return found

    def _file(self, path: str, source: Path, target: Path) -> None:
        if os.path.lexists(target):
            if _is(target, stat.S_ISDIR):
                raise self._conflict(path, "a directory and a file")
            if same_file(str(source), str(target)):
                source.unlink()
                return
            owner = self._owners.get(_merged(path))
            if owner is not None and owner not in self._package(path).replaces:
                raise self._conflict(path, "different")
        source.replace(target)

    def _package(self, path: str) -> Unpacked:
        """The new package that has ``path``, the last of several."""
        for package in reversed(self._packages):
            if any(_merged(f"/{name}") == path for name in (*package.files, *package.links)):
                return package
        for package in reversed(self._packages):
            if any(_merged(f"/{name}") == path for name in package.directories):
                return package
        return self._packages[-1]

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Which package of the root owns what, as far as dpkg's lists of files say it."""
        owners: dict[str, str] = {}
        information = locate(self._root, "/var/lib/dpkg/info")
        for file in sorted(information.glob("*.list")) if information is not None else ():
            if _is(file, stat.S_ISREG):
                name = file.name.removesuffix(".list").partition(":")[0]
                for line in file.read_bytes().splitlines():
                    owners.setdefault(_merged(os.fsdecode(line)), name)
        return owners

    def _conflict(self, path: str, how: str) -> ResolveError:
        owner = self._owners.get(_merged(path))
        return ResolveError(
            f"{path} is in both, but {how}, and the package does not replace what the image has",
            on=f"package {self._package(path).package} and the image"
            + (f" (package {owner})" if owner is not None else ""),
            hint="leave the package out, or use an image without what is in its way",
        )


def _merged(path: str) -> str:
    """An absolute path as it is after the usr-merge."""
    top, slash, rest = path.removeprefix("/").partition("/")
    return f"/{USR_MERGE.get(top, top)}{slash}{rest}" if slash else f"/{top}"


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether what stands at ``path``, no link followed, is of that kind (``stat.S_ISREG`` …)."""
    try:
        return kind(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
