"""Bundles: making one against ``tar | zstd`` of the same trees, and loading it against ``tar x`` of them.

Every side is a whole process, and what it writes is on the disk when its time ends: a bundle has its name, and a
tree in the store is trusted, only then. The trees are in the page cache.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import lockbuild, peak_memory, seconds, settle
from benchmarks.site import Site
from benchmarks.table import Row

RUNS = 5
_DURABLE = "whole processes; what they write is brought to the disk within the time (fsync, syncfs)"
_MEMORY = "all processes together, each shared page counted once (PSS), sampled 20 times a second"


def run(site: Site) -> Iterator[Row]:
    """The example's environment, as trees, in zstd."""
    project = site.project("environment")
    digests = sorted({tree.digest.hex for tree in site.lock("environment").trees if tree.digest is not None})
    trees = site.store.root / "trees/sha256"
    named = " ".join(digests)
    bundle = site.fresh("bundle") / "environment.bundle"
    tar = site.fresh("tar") / "trees.tar"
    subprocess.run(["tar", "-C", trees, "-cf", tar, *digests], check=True)

    def create(store: Path, output: Path) -> list[str]:
        return lockbuild(
            "bundle", "create", "--offline", "--project", project, "--store", store, "-o", output
        )

    making: dict[str, list[float]] = {"ours": [], "again": [], "tar to zstd": []}
    for _ in site.runs(RUNS):
        store = _trees_alone(site)
        settle()
        making["ours"].append(seconds(create(store, bundle)))
        settle()
        making["again"].append(seconds(create(store, bundle)))
        output = shlex.quote(str(site.fresh("zstd") / "trees.tar.zst"))
        script = (
            f"tar -C {shlex.quote(str(trees))} -cf - {named} | zstd -q -T2 -3 -o {output} && sync {output}"
        )
        settle()
        making["tar to zstd"].append(seconds(["sh", "-c", script]))
    yield Row(
        "making a bundle",
        "tar to zstd -T2 -3",
        "s",
        median(making["ours"]),
        median(making["tar to zstd"]),
        at_most=1.3,
        notes=(_DURABLE, "no layer was made before"),
        runs={"ours": making["ours"], "tar to zstd": making["tar to zstd"]},
    )
    yield Row(
        "making it again",
        "tar to zstd -T2 -3",
        "s",
        median(making["again"]),
        median(making["tar to zstd"]),
        notes=(_DURABLE, "the store has the layers"),
        runs={"ours": making["again"]},
    )
    loading: dict[str, list[float]] = {"ours": [], "tar x": []}
    for _ in site.runs(RUNS):
        settle()
        loading["ours"].append(seconds(lockbuild("bundle", "load", bundle, "--store", site.fresh("store"))))
        into = shlex.quote(str(site.fresh("extracted")))
        settle()
        loading["tar x"].append(
            seconds(["sh", "-c", f"tar -C {into} -xf {shlex.quote(str(tar))} && sync -f {into}"])
        )
    yield Row(
        "loading a bundle",
        "tar x of its trees, not compressed",
        "s",
        median(loading["ours"]),
        median(loading["tar x"]),
        at_most=1.3,
        notes=(_DURABLE,),
        runs=loading,
    )
    for what, command in (
        ("making a bundle", create(_trees_alone(site), bundle)),
        ("loading a bundle", lockbuild("bundle", "load", bundle, "--store", site.fresh("store"))),
    ):
        yield Row(f"memory of {what}", "", "MB", peak_memory(command), limit=300, notes=(_MEMORY,))


def _trees_alone(site: Site) -> Path:
    """A store that has the trees and nothing made of them, as hard links."""
    store = site.fresh("store")
    (store / "trees").mkdir()
    subprocess.run(["cp", "-al", site.store.root / "trees/sha256", store / "trees/sha256"], check=True)
    return store
