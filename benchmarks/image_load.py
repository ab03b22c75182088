"""``image load`` against ``docker load`` of an archive that has the same files in one layer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import lockbuild, seconds, settle
from benchmarks.site import Site
from benchmarks.table import Row

if TYPE_CHECKING:
    from typing_extensions import Buffer

RUNS = 3
_NOTE = (
    "an engine that never saw any of it; ours streams the layers out of the store's trees, the peer reads an archive "
    "that was made before its clock ran"
)
_CHANGED = "into the same engine, after another version of one of the ten tools was locked and synced"


def run(site: Site) -> Iterator[Row]:
    """First the whole environment, then one that differs in one tool; each round in an engine of its own."""
    whole, changed = site.project("tools"), site.project("changed")
    archives = [_one_layer(site, project) for project in (whole, changed)]
    runs: dict[str, list[float]] = {}

    for _ in site.runs(RUNS):
        ours, theirs = site.engine(), site.engine()
        for name, project, archive in (("whole", whole, archives[0]), ("changed", changed, archives[1])):
            settle()
            common = ("--project", project, "--store", site.store.root, "--backend", "docker")
            runs.setdefault(f"image load, {name}", []).append(
                seconds(lockbuild("image", "load", *common), ours)
            )
            settle()
            runs.setdefault(f"docker load, {name}", []).append(
                seconds(["docker", "load", "--input", str(archive)], theirs)
            )
        for engine in (ours, theirs):  # their disk space is needed for the next
            _forget(engine)
    for name, what, at_most, note in (
        ("whole", "image load", 1.1, _NOTE),
        ("changed", "image load, one tool of ten changed", 0.2, _CHANGED),
    ):
        yield Row(
            what,
            "docker load of one layer",
            "s",
            median(runs[f"image load, {name}"]),
            median(runs[f"docker load, {name}"]),
            at_most=at_most,
            notes=(note,),
            runs={key: value for key, value in runs.items() if key.endswith(name)},
        )


def _one_layer(site: Site, project: Path) -> Path:
    """The project's environment as an archive for ``docker load`` with all its trees in one layer."""
    from lockbuild.archive.canonical import tree_digest
    from lockbuild.events import silent
    from lockbuild.model.environment import Environment, MountedTree
    from lockbuild.oci.archive import ImageArchive, chunks_of
    from lockbuild.oci.image import compute
    from lockbuild.workflow.ready import open_project
    from lockbuild.workflow.workspace import ProjectPaths, Workspace

    workspace = Workspace(site.store, {}, silent, datetime.now(UTC), backend_name="bubblewrap")
    with closing(workspace):
        environment = open_project(workspace, ProjectPaths(project)).ready().environment
    root = site.fresh("one-layer") / "root"
    root.mkdir()
    for tree in environment.trees:
        subprocess.run(["cp", "-a", "--link", f"{tree.root}/.", root], check=True)
    merged = Environment(
        environment.platform, (MountedTree("all", tree_digest(root), "/", root),), environment.variables
    )
    archive = root.with_name("image.tar")
    with archive.open("wb") as out:

        def write(data: Buffer) -> None:
            out.write(data)

        name = f"peer/{project.name}:one-layer"
        image = compute(merged, labels={})
        ImageArchive([image], [name], name, chunks_of(None, [merged])).write(write)
    return archive


def _forget(engine: dict[str, str]) -> None:
    subprocess.run(
        ["sh", "-c", "docker rmi --force $(docker images --quiet)"],
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **engine},
        check=True,
        capture_output=True,
    )
