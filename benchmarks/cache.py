"""``cache pull`` against ``skopeo copy`` of the same environment from the same registry."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from statistics import median

from benchmarks.measure import lockbuild, peak_memory, seconds, settle
from benchmarks.site import Site
from benchmarks.table import Row

RUNS = 3
_NOTE = (
    "ours: every tree of the environment from its zstd layers into an empty store, each digest verified; theirs: the "
    "environment's image with the same layers into containers' storage (vfs), which unpacks them as well"
)
_COPY = "without unpacking: the layers as they are into a directory, each digest verified"


def run(site: Site) -> Iterator[Row]:
    """Alternates the sides; each pull has a store of its own, each copy a storage of its own."""
    from tests.support.registry import registry

    project = site.project("environment")
    host = site.exits.enter_context(registry(site.fresh("registry"))).host
    common = ("--project", project, "--backend", "bubblewrap", "--store")
    seconds(lockbuild("cache", "push", f"{host}/bench/cache", *common, site.store.root))
    reference = f"{host}/bench/image:latest"
    seconds(lockbuild("image", "push", reference, "--compression", "zstd", *common, site.store.root))
    runs: dict[str, list[float]] = {"cache pull": [], "skopeo copy": [], "skopeo copy, packed": []}
    for _ in site.runs(RUNS):
        store, storage, directory = (site.fresh(name) for name in ("store", "storage", "directory"))
        copy = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://{reference}"]
        for name, command in (
            ("cache pull", lockbuild("cache", "pull", f"{host}/bench/cache", *common, store)),
            (
                "skopeo copy",
                [*copy, f"containers-storage:[vfs@{storage}/root+{storage}/run]bench:latest"],
            ),
            ("skopeo copy, packed", [*copy, f"dir:{directory}"]),
        ):
            settle()
            runs[name].append(seconds(command))
        for made in (storage, directory):
            shutil.rmtree(made, ignore_errors=True)
    ours = median(runs["cache pull"])
    yield Row(
        "cache pull",
        "skopeo copy into storage",
        "s",
        ours,
        median(runs["skopeo copy"]),
        at_most=1.2,
        notes=(_NOTE,),
        runs=runs,
    )
    yield Row(
        "cache pull", "skopeo copy, packed", "s", ours, median(runs["skopeo copy, packed"]), notes=(_COPY,)
    )
    peak = peak_memory(lockbuild("cache", "pull", f"{host}/bench/cache", *common, site.fresh("store")))
    yield Row("peak memory of cache pull", "", "MB", peak, limit=300)
