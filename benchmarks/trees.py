"""The two inner loops of a ``sync`` by themselves: the digest of a tree, and unpacking Debian packages."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.measure import seconds, settle
from benchmarks.mirror import blob
from benchmarks.site import Site
from benchmarks.table import Row

RUNS = 5
_DIGEST = """
import sys, pathlib
from lockbuild.archive.canonical import tree_digest
tree_digest(pathlib.Path(sys.argv[1]))
"""
_UNPACK = """
import sys, pathlib
from lockbuild.environment.unpack import unpack_all
debs = [pathlib.Path(line) for line in pathlib.Path(sys.argv[1]).read_text().split()]
unpack_all(debs, pathlib.Path(sys.argv[2]), processes=2, done=lambda deb: None)
"""
_TAR = (
    "tar --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w"
    " -C {root} -cf - . | openssl dgst -sha256"
)
_DPKG = """
xargs -a {debs} -P 2 -n 1 sh -c '
mkdir "{into}/${{1##*/}}" && dpkg-deb --fsys-tarfile "$1" | tar -x --no-same-owner -C "{into}/${{1##*/}}"' -
"""
_CACHED = "everything is in the page cache; each side is a whole process"
_SEPARATE = "two processes, each package into a directory of its own; what is written stays in the page cache"


def run(site: Site) -> Iterator[Row]:
    """The base root and the packages of the example's environment."""
    yield from _digest(site)
    yield from _unpack(site)


def _digest(site: Site) -> Iterator[Row]:
    (base,) = [tree for tree in site.lock("environment").trees if tree.name == "base"]
    assert base.digest is not None
    root = site.store.tree_path(base.digest)
    commands = {"ours": [sys.executable, "-c", _DIGEST, str(root)]}
    commands["tar to openssl"] = ["sh", "-c", _TAR.format(root=shlex.quote(str(root)))]
    if shutil.which("nix"):
        experimental = ("--extra-experimental-features", "nix-command")
        commands["nix hash path"] = ["nix", *experimental, "hash", "path", "--type", "sha256", str(root)]
    runs: dict[str, list[float]] = {name: [] for name in commands}
    for number in (-1, *site.runs(RUNS)):
        for name, command in commands.items():
            taken = seconds(command)
            if number >= 0:  # the first one fills the page cache
                runs[name].append(taken)
    for name in list(commands)[1:]:
        yield Row(
            "digest of the base root",
            name,
            "s",
            median(runs["ours"]),
            median(runs[name]),
            notes=(_CACHED,),
            runs={"ours": runs["ours"], name: runs[name]},
        )


def _unpack(site: Site) -> Iterator[Row]:
    lock = site.lock("environment")
    sources = [source for source in lock.sources if source.purl.startswith("pkg:deb/")]
    sources.sort(key=lambda source: -(source.size or 0))  # as ours does: the largest first
    listing = site.fresh("unpack") / "debs"
    listing.write_text("".join(f"{site.store.blob_path(blob(source))}\n" for source in sources))
    runs: dict[str, list[float]] = {"ours": [], "dpkg-deb to tar": []}
    for _ in site.runs(RUNS):
        settle()
        runs["ours"].append(seconds([sys.executable, "-c", _UNPACK, str(listing), str(site.fresh("unpack"))]))
        settle()
        script = _DPKG.format(debs=shlex.quote(str(listing)), into=site.fresh("unpack"))
        runs["dpkg-deb to tar"].append(seconds(["sh", "-c", script]))
    yield Row(
        "unpacking the packages",
        "dpkg-deb to tar, two at once",
        "s",
        median(runs["ours"]),
        median(runs["dpkg-deb to tar"]),
        notes=(_SEPARATE,),
        runs=runs,
    )
