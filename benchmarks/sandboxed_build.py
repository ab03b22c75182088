"""``build`` through the sandbox against the same steps without one.

The peer gets the same trees at the same paths by bind mounts, the same variables and user, and runs each
step by chroot(8): no namespaces, no digest of the source, no copy of the outputs. Its mounts are made before
its clock runs. As a program this module is that peer (it needs root, and a mount namespace of its own).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.measure import environment, lockbuild, processor_seconds, seconds, settle
from benchmarks.site import EXAMPLES, Site
from benchmarks.table import Row

RUNS = 7
_NOTE = (
    "ours is the whole command: interpreter, digest of the source, sandbox, outputs hashed and brought to the "
    "disk; theirs the steps alone, by chroot with the same trees bind-mounted, as root's child with the same user"
)

_WORK = (
    "of the processors, by lockbuild's own processes without the steps that they start, against all of the steps; "
    "hardly depends on other load. A third of it runs beside the steps: every file of the environment is looked at"
)


@dataclass(frozen=True)
class Plain:
    """What the peer runs: ``mounts`` are (source, target), ``variables`` the whole environment."""

    mounts: list[tuple[str, str]]
    variables: dict[str, str]
    directory: str
    steps: list[str]
    user: int


def run(site: Site) -> Iterator[Row]:
    """Each example, alternating."""
    for name in EXAMPLES:
        project = site.project(name)
        ours = lockbuild(
            "build", "--project", project, "--store", site.store.root, "--backend", "bubblewrap", "-q"
        )
        seconds(ours)  # warms the page cache for both
        runs: dict[str, list[float]] = {"build": [], "steps": []}
        work: dict[str, list[float]] = {"build": [], "steps": []}
        for _ in site.runs(RUNS):
            settle()
            before = processor_seconds()
            runs["build"].append(seconds(ours))
            work["build"].append(processor_seconds() - before)
            settle()
            elapsed, worked = _steps(site, project)
            runs["steps"].append(elapsed)
            work["steps"].append(worked)
        peer = "the same steps without a sandbox"
        yield Row(
            f"build of examples/{name}",
            peer,
            "s",
            median(runs["build"]),
            median(runs["steps"]),
            at_most=1.05,
            notes=(_NOTE,),
            runs=runs,
        )
        yield Row(
            "lockbuild's own work in that build",
            "all work of the steps",
            "s",
            median(work["build"]),
            median(work["steps"]),
            notes=(_WORK,),
            runs=work,
        )


def _steps(site: Site, project: Path) -> tuple[float, float]:
    """Seconds that the steps of the project's only target take, by the clock and of the processors."""
    from lockbuild.events import silent
    from lockbuild.sandbox.layout import Mount, base_tree, compose, read_only_mounts
    from lockbuild.workflow.ready import open_project
    from lockbuild.workflow.session import prepare
    from lockbuild.workflow.workspace import ProjectPaths, Workspace

    work = site.fresh("steps")
    workspace = Workspace(site.store, {}, silent, datetime.now(UTC), backend_name="bubblewrap")
    with closing(workspace):
        opened = open_project(workspace, ProjectPaths(project))
        (target,) = opened.targets
        prepared = prepare(workspace, opened.ready(), target, None)
    spec = prepared.spec
    writable = []
    for number, target in enumerate(spec.writable):
        directory = work / str(number)
        directory.mkdir()
        directory.chmod(0o1777)
        writable.append(Mount(directory, target, writable=True))
    mounts = compose(base_tree(spec), [*read_only_mounts(spec), *writable], work / "root")
    plain = Plain(
        mounts=[(str(mount.source), mount.target) for mount in mounts],
        variables={**spec.variables, **prepared.plan.variables},
        directory=prepared.plan.directory,
        steps=list(prepared.plan.steps),
        user=1000,
    )
    file = work / "plain.json"
    file.write_text(json.dumps(asdict(plain)))
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-m", "benchmarks.sandboxed_build", file],
        env=environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the steps failed without a sandbox:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    elapsed, worked = map(float, done.stdout.splitlines()[-1].split())
    return elapsed, worked


def _run_plain(file: str) -> None:
    plain = Plain(**json.loads(Path(file).read_text()))
    root = next(source for source, target in plain.mounts if target == "/")
    for source, target in plain.mounts:
        if target != "/":
            subprocess.run(["mount", "--bind", source, root + target], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", f"{root}/dev"], check=True)
    begin, before = time.perf_counter(), processor_seconds()
    for step in plain.steps:
        script = 'cd "$0" && exec /bin/sh -e -c "$1"'
        command = ["chroot", f"--userspec={plain.user}:{plain.user}", root, "/bin/sh", "-c", script]
        subprocess.run(
            [*command, plain.directory, step],
            env=plain.variables,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    sys.stdout.write(f"\n{time.perf_counter() - begin} {processor_seconds() - before}\n")


if __name__ == "__main__":
    _run_plain(sys.argv[1])
