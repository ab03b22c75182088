"""``lockbuild reproduce``: build again and compare, with the lock or with itself; or record what came out.

What it says is about locked bytes, so every tree that a build uses is hashed again meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lockbuild.compare.outputs import compare
from lockbuild.errors import InconclusiveError, IntegrityError, UsageError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Claim, OutputFile, RecordedOutputs
from lockbuild.model.outcome import BuildOutcome, BuiltFile, Comparison
from lockbuild.workflow.build import Built, build_once
from lockbuild.workflow.destinations import Destinations
from lockbuild.workflow.project import Project, load_lock, require_current, require_writable, write_lock
from lockbuild.workflow.ready import reads, ready
from lockbuild.workflow.sync import sync
from lockbuild.workflow.workspace import Workspace


def record(workspace: Workspace, project: Project, targets: Sequence[str]) -> list[BuildOutcome]:
    """Build each target and write its outputs' hashes into the lock. The bytes stay in the store for comparing."""
    lock = load_lock(project.paths)
    require_current(project, lock)
    if not workspace.backend.guarantees.reproducible:
        raise UsageError(
            f"results of the {workspace.backend.name!r} back-end are never recorded: it guarantees nothing",
            hint="use --backend bubblewrap or docker",
        )
    require_writable(project.paths)
    made = ready(project, sync(workspace, project, lock, workspace.platform))
    outcomes = []
    recorded: dict[str, RecordedOutputs] = {}
    for target in targets:
        with build_once(workspace, made, target, None, thorough=True) as built:
            for file in built.outcome.files:
                workspace.store.add_file(built.directory / file.path, file.sha256)
        outcomes.append(built.outcome)
        recorded[target] = RecordedOutputs(
            input=built.outcome.input,
            platform=workspace.platform,
            files=[OutputFile(path=f.path, size=f.size, sha256=f.sha256) for f in built.outcome.files],
        )
    current = load_lock(project.paths)  # a build is long: keep what was written meanwhile
    require_current(project, current)
    write_lock(project.paths, current.model_copy(update={"outputs": {**current.outputs, **recorded}}))
    return outcomes


def check_hash(
    workspace: Workspace, project: Project, targets: Sequence[str], chosen: Path | None
) -> list[Comparison]:
    """Build each target again and compare with the lock: with what it records, and with what others claim.

    A record decides; a claim decides where there is no record. With ``chosen`` the outputs are put there, too.
    InconclusiveError, before anything is fetched or built, where the lock has neither for a target.
    """
    lock = load_lock(project.paths)
    require_current(project, lock)
    for target in targets:
        if target not in lock.outputs and target not in lock.claims:
            raise InconclusiveError(
                "the lock records no outputs to compare with",
                on=f"{project.paths.lock}: outputs.{target}",
                hint="run `lockbuild reproduce --record` where the outputs are known to be good",
            )
    destinations = Destinations(project.paths, project.manifest.project.targets, reads(project), chosen)
    if chosen is not None:
        destinations.check(targets, workspace.store.root)
    made = ready(project, sync(workspace, project, lock, workspace.platform))
    comparisons = []
    for target in targets:
        recorded, claim = lock.outputs.get(target), lock.claims.get(target)
        if recorded is not None and recorded.platform != workspace.platform:
            workspace.report(
                Note(
                    f"the outputs of {target} were recorded on {recorded.platform}, this is {workspace.platform}",
                    level="warning",
                )
            )
        destination = None if chosen is None else destinations.of(target)
        with build_once(workspace, made, target, destination, thorough=True) as built:
            if recorded is not None:
                comparisons.append(_with_record(workspace, target, recorded, built))
            if claim is not None:
                comparisons.append(_with_claim(workspace, target, claim, built, decisive=recorded is None))
            if chosen is not None:
                destinations.publish(target, built.directory, built.outcome.files, workspace.report)
    return comparisons


def _with_record(workspace: Workspace, target: str, recorded: RecordedOutputs, built: Built) -> Comparison:
    comparison = compare(
        target,
        _files(recorded.files),
        built.outcome.files,
        recorded_bytes=lambda digest: _blob(workspace, digest),
        found_directory=built.directory,
        stale_input=recorded.input if recorded.input != built.outcome.input else None,
    )
    return replace(comparison, input=built.outcome.input)


def _with_claim(
    workspace: Workspace, target: str, claim: Claim, built: Built, *, decisive: bool
) -> Comparison:
    """Only the files that are claimed: nobody said anything of the others."""
    claimed = {file.path for file in claim.files}
    comparison = compare(
        target,
        _files(claim.files),
        [file for file in built.outcome.files if file.path in claimed],
        recorded_bytes=lambda digest: _blob(workspace, digest),
        found_directory=built.directory,
    )
    return replace(comparison, claimed_by=claim.by, decisive=decisive)


def twice(workspace: Workspace, project: Project, targets: Sequence[str]) -> list[Comparison]:
    """Build each target two times and compare the two with one another; the lock's records play no part."""
    lock = load_lock(project.paths)
    require_current(project, lock)
    made = ready(project, sync(workspace, project, lock, workspace.platform))
    comparisons = []
    for target in targets:
        with build_once(workspace, made, target, None, thorough=True) as first:
            originals = {file.sha256: first.directory / file.path for file in first.outcome.files}
            with build_once(workspace, made, target, None) as second:
                comparisons.append(
                    compare(
                        target,
                        first.outcome.files,
                        second.outcome.files,
                        recorded_bytes=originals.get,
                        found_directory=second.directory,
                    )
                )
    return comparisons


def _files(files: Iterable[OutputFile]) -> list[BuiltFile]:
    return [BuiltFile(file.path, file.size, file.sha256) for file in files]


def _blob(workspace: Workspace, digest: Digest) -> Path | None:
    """The recorded bytes, where the store has them: they show where others differ, the verdict needs them not."""
    if not workspace.store.has_blob(digest):
        return None
    try:
        return workspace.store.verified_blob(digest)
    except IntegrityError as error:
        workspace.report(Note(f"a recorded output cannot be compared with: {error.what}", level="warning"))
        return None
