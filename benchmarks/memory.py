"""How much memory a cold ``sync`` needs, and that a larger environment does not need more."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import lockbuild, peak_memory
from benchmarks.site import Site
from benchmarks.table import Row

_NOTE = "all processes together, each shared page counted once (PSS), sampled 20 times a second"

_ENGINE = "the processes of lockbuild; what the engine itself needs to unpack layers is not ours to bound"


def run(site: Site) -> Iterator[Row]:
    """The example's environment, one of twice its size, and the first once more into an engine."""
    peaks = {}
    sizes = {}
    for name, project, backend in (
        ("environment", "environment", "bubblewrap"),
        ("large", "large", "bubblewrap"),
        ("docker", "environment", "docker"),
    ):
        variables = {**site.configuration, **(site.engine() if backend == "docker" else {})}
        common = ("--project", site.project(project), "--store", site.fresh("store"))
        peaks[name] = peak_memory(lockbuild("sync", *common, "--backend", backend), variables)
        sizes[name] = sum(source.size or 0 for source in site.lock(project).sources) / 1e6
    for name, suffix, notes in (("environment", "", (_NOTE,)), ("docker", ", docker", (_NOTE, _ENGINE))):
        yield Row(
            f"peak memory of sync, {sizes[name]:.0f} MB of packages{suffix}",
            "",
            "MB",
            peaks[name],
            limit=400,
            notes=notes,
        )
    yield Row(
        f"peak memory of sync, {sizes['large']:.0f} MB of packages",
        "the environment above",
        "MB",
        peaks["large"],
        peaks["environment"],
        at_most=1.2,
        limit=400,
        notes=(_NOTE,),
    )
