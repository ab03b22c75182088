"""How the root directory of a sandbox is put together from read-only trees.

A store tree has no mount points for what else must stand in it (/build, /opt/cmake), and nothing may write
into the store. So a *skeleton* is made on disk: the few directories that must hold mount points, with
everything of the base tree that stands in them mounted, linked or copied beside. All else is mounted whole.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lockbuild.archive.rootfs import mounted_directory, plain_directory
from lockbuild.errors import SandboxError
from lockbuild.model.environment import SandboxSpec

KERNEL_DIRS = ("/dev", "/proc", "/sys")
"""Always there, whatever the base tree has; the last one is empty in every sandbox."""


@dataclass(frozen=True, slots=True)
class Mount:
    """The host directory or file ``source`` stands at the absolute sandbox path ``target``."""

    source: Path
    target: str
    writable: bool = False


def base_tree(spec: SandboxSpec) -> Path:
    """The unpacked base tree; SandboxError where the environment has none."""
    for tree in spec.environment.trees:
        if tree.mount == "/":
            return tree.root
    raise SandboxError("the environment has no base tree (none is mounted at /)")


def read_only_mounts(spec: SandboxSpec) -> list[Mount]:
    """The tools and inputs of ``spec``, and where they stand; not the base."""
    tools = [
        Mount(mounted_directory(tree), tree.mount) for tree in spec.environment.trees if tree.mount != "/"
    ]
    return tools + [Mount(item.directory, item.mount) for item in spec.inputs]


def compose(base: Path, mounts: Iterable[Mount], skeleton: Path) -> list[Mount]:
    """Make ``skeleton`` and give all mounts in the order in which they must be made, the skeleton first.

    SandboxError for a mount that is not below /, or that lies in another one where there is no directory.
    """
    wanted = sorted(mounts, key=lambda mount: PurePosixPath(mount.target).parts)
    targets = [PurePosixPath(mount.target) for mount in wanted]
    for target in targets:
        if not target.is_absolute() or len(target.parts) < 2 or ".." in target.parts:
            raise SandboxError(f"{str(target)!r} is not a place for a mount")
    made = _compose_directory(PurePosixPath("/"), base, targets, skeleton)
    for index, mount in enumerate(wanted):
        # A mount inside another one needs its mount point there: the skeleton does not reach it.
        outer = [other for other in wanted[:index] if targets[index].is_relative_to(other.target)]
        if outer:
            below = str(targets[index].relative_to(outer[-1].target))
            if outer[-1].writable:
                (outer[-1].source / below).mkdir(parents=True, exist_ok=True)
            elif plain_directory(outer[-1].source, below) is None:
                raise SandboxError(
                    f"{mount.target} cannot be mounted: {outer[-1].target} has no such directory"
                )
    return [Mount(skeleton, "/"), *made, *wanted]


def _compose_directory(
    path: PurePosixPath, base: Path | None, targets: Sequence[PurePosixPath], skeleton: Path
) -> list[Mount]:
    """Make the skeleton's directory for ``path``, which the base tree has at ``base`` (or not)."""
    skeleton.mkdir()
    skeleton.chmod(0o755)
    made: list[Mount] = []
    entries = {entry.name: entry for entry in os.scandir(base)} if base is not None else {}
    needed = {target.relative_to(path).parts[0] for target in targets}
    if path == PurePosixPath("/"):
        needed |= {name[1:] for name in KERNEL_DIRS}
    for name in sorted(entries.keys() | needed):
        here = path / name
        entry = entries.get(name)
        point = skeleton / name
        below = [target for target in targets if here in target.parents]
        if here in targets or str(here) in KERNEL_DIRS:
            point.mkdir()
            point.chmod(0o755)
        elif entry is None:
            made += _compose_directory(here, None, below, point)
        elif entry.is_symlink():
            if below:
                raise SandboxError(
                    f"{below[0]} cannot be mounted: {here} is a symbolic link in the base tree"
                )
            point.symlink_to(os.readlink(entry.path))  # noqa: PTH115  Path would tidy the target
        elif not entry.is_dir():
            shutil.copyfile(entry.path, point)
            point.chmod(0o755 if entry.stat().st_mode & stat.S_IXUSR else 0o644)
            os.utime(point, (0, 0))
        elif below and not all(
            plain_directory(Path(entry.path), str(target.relative_to(here))) for target in below
        ):
            made += _compose_directory(here, Path(entry.path), below, point)
        else:
            point.mkdir()
            point.chmod(0o755)
            made.append(Mount(Path(entry.path), str(here)))
    for entry_path in skeleton.iterdir():
        os.utime(entry_path, (0, 0), follow_symlinks=False)
    os.utime(skeleton, (0, 0))
    return made


def read_only_paths(trees: Sequence[Path], writable: Iterable[str]) -> list[str]:
    """The fewest directories that cover all of ``trees`` (each rooted at /) but the ``writable`` ones.

    For an engine that takes a list of paths to protect instead of mounts.
    """
    kept = [PurePosixPath(path) for path in writable]
    covered: list[str] = []
    pending = [PurePosixPath("/")]
    while pending:
        path = pending.pop()
        names: set[str] = set()
        for tree in trees:
            at = plain_directory(tree, str(path))
            if at is not None:
                names |= {item.name for item in os.scandir(at) if item.is_dir(follow_symlinks=False)}
        for name in names:
            here = path / name
            if here in kept or str(here) in KERNEL_DIRS:
                continue
            if any(here in other.parents for other in kept):
                pending.append(here)
            else:
                covered.append(str(here))
    return sorted(covered)
