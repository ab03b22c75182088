"""A cold ``sync`` against mmdebstrap and ``docker import``, for the same packages from the same mirror."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import lockbuild, seconds, settle
from benchmarks.site import Site
from benchmarks.table import Row
from lockbuild.config import load
from lockbuild.model.lock import Lock

RUNS = 3
_NO_DERIVE = "the toolchain without its [derive] table: compiling Emscripten's libraries has no counterpart in the peer"
_PEER = (
    "mmdebstrap --mode=root --variant=custom with every package of the lock by name and version, as a tar, "
    "then docker import of it; it runs maintainer scripts, ours does not need to. Ours also installs the wheels of "
    "CMake and Ninja, verifies every digest, hashes the trees and brings all to the disk before it ends"
)
_FASTEST = (
    "the same with --variant=extract, which unpacks the packages and configures none: "
    "the least that mmdebstrap can do"
)


def run(site: Site) -> Iterator[Row]:
    """Alternates the two sides; each sync has a store of its own, each image an engine that never saw it."""
    project = site.project("environment")
    packages = _packages(site.lock("environment"))
    runs: dict[str, list[float]] = {}
    engine: dict[str, str] = {}

    def measure(name: str, command: list[str]) -> None:
        settle()
        runs.setdefault(name, []).append(seconds(command, {**site.configuration, **engine}))

    for _ in site.runs(RUNS):
        engine = site.engine()
        common = ["--project", str(project), "--store"]
        measure("bubblewrap", lockbuild("sync", *common, site.fresh("store"), "--backend", "bubblewrap"))
        tar = site.fresh("peer") / "root.tar"
        measure("mmdebstrap", _mmdebstrap(site, packages, tar, "custom"))
        measure("docker import", ["docker", "import", str(tar), "peer:root"])
        measure("docker", lockbuild("sync", *common, site.fresh("store"), "--backend", "docker"))
    tar = site.fresh("peer") / "root.tar"
    measure("mmdebstrap extract", _mmdebstrap(site, packages, tar, "extract"))
    measure("docker import extract", ["docker", "import", str(tar), "peer:extract"])

    peer = median(map(sum, zip(runs["mmdebstrap"], runs["docker import"], strict=True)))
    fastest = runs["mmdebstrap extract"][0] + runs["docker import extract"][0]
    for backend, target in (("bubblewrap", 0.4), ("docker", 0.7)):
        ours = median(runs[backend])
        yield Row(
            f"cold sync, {backend}",
            "mmdebstrap + docker import",
            "s",
            ours,
            peer,
            at_most=target,
            notes=(_NO_DERIVE, _PEER),
            runs=runs,
        )
        yield Row(
            f"cold sync, {backend}",
            "mmdebstrap extract + docker import",
            "s",
            ours,
            fastest,
            notes=(_FASTEST,),
        )


def _mmdebstrap(site: Site, packages: list[str], tar: Path, variant: str) -> list[str]:
    keyring = load(os.environ).debian_keyring()
    return [
        "mmdebstrap",
        "--mode=root",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        f"--keyring={keyring}",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        site.lock("environment").suites[0].name,
        str(tar),
        f"deb {site.mirror}/debian {site.lock('environment').suites[0].name} main",
    ]


def _packages(lock: Lock) -> list[str]:
    from packageurl import PackageURL

    parts = [PackageURL.from_string(source.purl) for source in lock.sources]
    return [f"{part.name}={part.version}" for part in parts if part.type == "deb"]
