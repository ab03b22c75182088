"""What a command costs that finds nothing to do, against the imports that any such tool has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.measure import lockbuild, seconds
from benchmarks.site import Site
from benchmarks.table import Row

RUNS = 25
_NOTE = "each a whole process of the same interpreter; medians of alternating runs"


def run(site: Site) -> Iterator[Row]:
    """``sync`` of an environment that is there and ``lock --check`` of a lock that is current."""
    project = site.project("hello")
    common = ("--project", project, "--store", site.store.root, "--backend", "bubblewrap")
    commands = {
        "no-op sync": lockbuild("sync", *common),
        "lock --check": lockbuild("lock", "--check", *common),
        "imports": [sys.executable, "-c", "import pydantic, tomllib"],
    }
    runs: dict[str, list[float]] = {name: [] for name in commands}
    for number in (-1, *site.runs(RUNS)):
        for name, command in commands.items():
            taken = seconds(command) * 1000
            if number >= 0:  # the first one warms caches
                runs[name].append(taken)
    for name in ("no-op sync", "lock --check"):
        yield Row(
            name,
            "import pydantic, tomllib",
            "ms",
            median(runs[name]),
            median(runs["imports"]),
            at_most=3,
            limit=250,
            notes=(_NOTE,),
            runs={name: runs[name], "imports": runs["imports"]},
        )
