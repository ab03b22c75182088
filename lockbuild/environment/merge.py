"""Merge unpacked packages into one root, with the outcome that dpkg would come to, or none.

Where packages hold the same path the result depends on the packages alone, not on timing:

- ``/bin``, ``/sbin``, ``/lib``, ``/lib64`` … are links into ``/usr``, and what a package still holds
  there lands in ``/usr`` (the usr-merge of Debian Policy 10.1).
- Directories are joined. A directory in one package that is a symbolic link in another is the link,
  when that leads to a packaged directory.
- Two files of the same bytes and mode, or two links of the same target, are one.
- A package that *Replaces* another (Debian Policy 7.6.1) or *diverts* the path (``dpkg-divert(1)``) prevails.
- Anything else is a conflict of the two packages, and an error.

Versions in Replaces are not compared: they tell an upgrade's files apart, and here nothing is upgraded.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Sequence
from pathlib import Path

from lockbuild.environment.unpack import Unpacked
from lockbuild.errors import ResolveError

USR_MERGE = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libo32", "libx32")}
_ALWAYS = ("bin", "sbin", "lib")
_CHUNK = 1 << 20
_MAX_LINKS = 40


def merge(packages: Sequence[Unpacked], root: Path) -> None:
    """Move what ``packages`` hold into ``root`` (a directory on the same file system, empty but for their trees).

    Later packages meet what earlier ones left. Raises ResolveError naming both packages of a conflict.
    """
    _Merge(packages, root).run()


class _Merge:
    def __init__(self, packages: Sequence[Unpacked], root: Path) -> None:
        self._packages = packages
        self._root = str(root)
        self._aliases = dict(USR_MERGE)
        self._owners: dict[str, int] = {}
        self._add_aliases()
        for index, package in enumerate(packages):
            for path in (*package.files, *package.links):
                self._owners.setdefault(self._beside(path), index)
        self._diversions: dict[str, tuple[int, str]] = {}
        for index, package in enumerate(packages):
            for diversion in package.diversions:
                path = self._beside(diversion.path.lstrip("/"))
                if path in map(self._beside, (*package.files, *package.links)):
                    self._diversions[path] = (index, self._beside(diversion.to.lstrip("/")))

    def run(self) -> None:
        for name in _ALWAYS:
            self._make(f"usr/{name}")
        for index, package in enumerate(self._packages):
            self._directory(index, package.tree, "")
        for name, target in USR_MERGE.items():
            if os.path.isdir(f"{self._root}/{target}"):  # noqa: PTH112
                Path(self._root, name).symlink_to(target)

    # Where a packaged path really is

    def _real(self, path: str) -> str:
        """``path`` with every directory that is a link in the merged root replaced by what it leads to."""
        for _ in range(_MAX_LINKS):
            head = path
            while head not in self._aliases:
                head = head.rpartition("/")[0]
                if not head:
                    return path
            path = self._aliases[head] + path[len(head) :]
        raise ResolveError("symbolic links of the packages lead in a circle", on=f"/{path}")

    def _beside(self, path: str) -> str:
        """As `_real`, but a link at the path itself is not followed."""
        directory, _, name = path.rpartition("/")
        return f"{self._real(directory)}/{name}" if directory else name

    def _add_aliases(self) -> None:
        """Find the paths that are a directory in one package and a link in another."""
        directories = {
            self._real(path): package for package in self._packages for path in package.directories if path
        }
        for package in self._packages:
            for link, target in package.links.items():
                path = self._beside(link)
                if path in self._aliases or path not in directories:
                    continue
                leads = self._real(posixpath.normpath(posixpath.join("/", path, "..", target)).lstrip("/"))
                if leads not in directories or leads == path or leads.startswith(f"{path}/"):
                    raise _conflict(package, directories[path], path, "a link and a directory")
                self._aliases[path] = leads

    # Moving

    def _make(self, path: str) -> None:
        """The directory ``path`` and those above it."""
        if path and not os.path.isdir(f"{self._root}/{path}"):  # noqa: PTH112  a str path is much faster
            self._make(path.rpartition("/")[0])
            os.mkdir(f"{self._root}/{path}")  # noqa: PTH102
            os.chmod(f"{self._root}/{path}", 0o755)  # noqa: PTH101, S103  whatever the umask

    def _directory(self, index: int, source: str, path: str) -> None:
        """Move what is in the directory ``source`` of a package into ``path``."""
        with os.scandir(source) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            child = f"{path}/{entry.name}" if path else entry.name
            if not entry.is_dir(follow_symlinks=False):
                if child not in USR_MERGE:
                    self._file(index, entry.path, child)
                continue
            child = self._real(child)
            found = self._mode(child)
            if found is None and not self._has_alias(child):
                self._make(child.rpartition("/")[0])
                os.rename(entry.path, f"{self._root}/{child}")  # noqa: PTH104
            elif found is not None and not stat.S_ISDIR(found):
                raise self._conflict(index, child, "a file and a directory")
            else:
                self._make(child)
                self._directory(index, entry.path, child)

    def _has_alias(self, path: str) -> bool:
        return any(alias == path or alias.startswith(f"{path}/") for alias in self._aliases)

    def _mode(self, path: str) -> int | None:
        try:
            return os.lstat(f"{self._root}/{path}").st_mode
        except FileNotFoundError:
            return None

    def _file(self, index: int, source: str, path: str) -> None:
        """Move the file or link ``source`` of a package to ``path``, unless another one prevails there."""
        diverter, away = self._diversions.get(path, (index, path))
        if diverter != index:
            path = away
            self._make(path.rpartition("/")[0])
        found = self._mode(path)
        target = f"{self._root}/{path}"
        if found is None:
            os.rename(source, target)  # noqa: PTH104
            self._owners.setdefault(path, index)
            return
        if stat.S_ISDIR(found):
            raise self._conflict(index, path, "a directory and a file")
        if same_file(source, target):
            return
        package, owner = self._packages[index], self._packages[self._owners.get(path, index)]
        if owner.package in package.replaces:
            os.replace(source, target)  # noqa: PTH105
            self._owners[path] = index
        elif package.package not in owner.replaces:
            raise _conflict(owner, package, path, "different")

    def _conflict(self, index: int, path: str, how: str) -> ResolveError:
        """Package ``index`` meets at ``path`` an entry of another kind that an earlier one left there."""
        for earlier in self._packages[:index]:
            names = {*map(self._real, earlier.directories), *map(self._beside, earlier.files)}
            names.update(map(self._beside, earlier.links))
            if path in names or any(name.startswith(f"{path}/") for name in names):
                return _conflict(earlier, self._packages[index], path, how)
        return _conflict(self._packages[index], self._packages[index], path, how)


def same_file(one: str, other: str) -> bool:
    """Whether two files or links are the same in a canonical tar."""
    first, second = os.lstat(one), os.lstat(other)
    if first.st_mode != second.st_mode:
        return False
    if stat.S_ISLNK(first.st_mode):
        return os.readlink(one) == os.readlink(other)  # noqa: PTH115
    if first.st_size != second.st_size:
        return False
    with open(one, "rb") as left, open(other, "rb") as right:  # noqa: PTH123
        while data := left.read(_CHUNK):
            if data != right.read(_CHUNK):
                return False
    return True


def _conflict(one: Unpacked, other: Unpacked, path: str, how: str) -> ResolveError:
    first, second = sorted((one.package, other.package))
    return ResolveError(
        f"/{path} is in both, but {how}, and neither package replaces the other",
        on=f"packages {first} and {second}",
        hint="leave out the package that asks for one of them; the two cannot be installed together",
    )
