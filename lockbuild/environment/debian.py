"""A Debian base root, made from the locked packages without running anything of theirs.

Three steps, each with its own module: unpack every ``data.tar`` by itself (in parallel), merge the
results in the given order, and add what maintainer scripts would have made as far as a build needs it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from lockbuild.environment.known_files import write_known_files
from lockbuild.environment.merge import merge
from lockbuild.environment.unpack import unpack_all
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
    key = f"unpack {root}"
    sizes = {deb: deb.stat().st_size for deb in debs}
    report(Started(key, f"unpack {len(debs)} packages", sum(sizes.values())))
    work = root / _WORK
    try:
        work.mkdir()
        packages = unpack_all(
            debs, work, processes=_PROCESSES, done=lambda deb: report(Advanced(key, sizes[deb]))
        )
        seen: set[str] = set()
        for package in packages:
            if package.package in seen:
                raise ResolveError(
                    "the package is there twice", on=package.package, hint="lock the base again"
                )
            seen.add(package.package)
            if package.architecture not in ("all", platform.debian_architecture):
                raise ResolveError(
                    f"the package is for {package.architecture}, the base for {platform.debian_architecture}",
                    on=package.package,
                    hint="lock the base again",
                )
        merge(packages, root)
        shutil.rmtree(work)
        for name in write_known_files(root, packages):
            report(Note(f"alternative {name}: nothing that it could lead to is installed", "debug"))
    except OSError as error:
        raise storage_error(error, "cannot unpack the packages", on=str(root)) from error
    finally:
        report(Finished(key))
