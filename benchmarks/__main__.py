"""``python -m benchmarks [NAME…]``: measure, print one table, keep it as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import bundle, cache, cold_sync, image_load, memory, no_op, sandboxed_build, trees
from benchmarks.site import Site, site
from benchmarks.table import Row, read, render

BENCHMARKS: dict[str, Callable[[Site], Iterator[Row]]] = {
    "no-op": no_op.run,
    "trees": trees.run,
    "build": sandboxed_build.run,
    "memory": memory.run,
    "sync": cold_sync.run,
    "image": image_load.run,
    "bundle": bundle.run,
    "cache": cache.run,
}
_RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 where every target is met, 1 where one is not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="prepare in DIR, and keep that for the next run"
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help="measure each side N times (default: as is needed)"
    )
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="measure nothing; print the table of a kept result"
    )
    arguments = parser.parse_args(argv)
    if arguments.show is not None:
        print(render(read(json.loads(arguments.show.read_text()))), end="")
        return 0
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(BENCHMARKS)}")
    facts = machine()
    rows: list[Row] = []
    with site(arguments.work, arguments.runs) as prepared:
        for name in arguments.names or BENCHMARKS:
            for row in BENCHMARKS[name](prepared):
                sys.stderr.write(render([row]).splitlines()[2] + "\n")
                rows.append(row)
        print(render(rows), end="")
        _keep(facts, rows)
    return 1 if any(row.ok is False for row in rows) else 0


def machine() -> dict[str, Any]:
    """What of this machine decides the numbers; nothing that names it. ``load`` is from before the run."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "cpu": names[0] if names else platform.machine(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def _keep(facts: dict[str, Any], rows: Sequence[Row]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    value = {"schema": 1, "machine": facts, "rows": [row.value() for row in rows]}
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stderr.write(f"kept in {file}\n")


if __name__ == "__main__":
    sys.exit(main())
