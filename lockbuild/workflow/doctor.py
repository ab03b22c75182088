"""``lockbuild doctor``: look at everything on this machine that lockbuild needs, and say what to do about it.

It changes nothing, never fails and never hangs: what cannot be looked at, or not in time, is a finding as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.doctor import machine, network, places, sandboxes
from lockbuild.doctor.finding import Finding, ok, problem, warning
from lockbuild.doctor.parallel import Failed, in_parallel
from lockbuild.errors import ExitStatus, LockbuildError, StaleLockError
from lockbuild.workflow.workspace import ProjectPaths, Workspace

if TYPE_CHECKING:
    from lockbuild.config import Config

LIMIT = 20.0
"""Seconds that it takes at most."""
_SEVEREST_FIRST = (ExitStatus.SANDBOX, ExitStatus.USAGE, ExitStatus.FETCH)

_Look = Callable[[], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and how many seconds that took."""

    findings: tuple[Finding, ...]
    seconds: float

    @property
    def status(self) -> ExitStatus:
        """The exit status that the severest problem would give a command; OK where lockbuild can work."""
        met = {finding.status for finding in self.findings}
        return next((status for status in _SEVEREST_FIRST if status in met), ExitStatus.OK)


def diagnose(workspace: Workspace, directory: Path | None, *, limit: float = LIMIT) -> Diagnosis:
    """Look at everything, within ``limit`` seconds. ``directory`` is the project's, where there is one.

    Offline nothing is asked of the network, but for the container engine.
    """
    started = time.monotonic()
    config, configuration = _configuration(workspace)
    environ = workspace.environ
    local: list[tuple[str, _Look]] = [
        ("python", machine.python),
        (sandboxes.ENGINE, partial(sandboxes.engine, environ, workspace.platform)),
        (sandboxes.BUBBLEWRAP, sandboxes.bubblewrap),
        ("store", partial(machine.store, workspace.store.root)),
        *([] if directory is None else _project_looks(directory)),
        ("git", machine.git),
        ("gpgv", partial(machine.signatures, config)),
        ("proxy", partial(network.proxies, environ, connect=not workspace.offline)),
        ("ca", partial(network.authorities, config, environ)),
    ]
    kinds = () if workspace.offline else places.KINDS
    lists: list[Callable[[], list[places.Place]]] = [
        partial(places.configured, config, kind) for kind in kinds
    ]
    half = started + limit / 2
    told: list[list[places.Place] | Failed] = []

    def list_places() -> Iterable[Finding]:
        told.extend(in_parallel(lists, half - 0.1))
        return ()

    findings = _looked_at([*local, ("configuration", list_places)], half, limit / 2)
    findings += configuration
    wanted: list[places.Place] = []
    for kind, found in zip(kinds, told, strict=False):
        if isinstance(found, Failed):
            findings.append(_failed(kind, found, limit / 2))
        else:
            wanted += found
    if workspace.offline:
        findings.append(ok("network", "was not looked at (--offline)"))
    else:
        findings += _network(workspace, config, wanted, started + limit, limit)
    # After what builds could run in comes what they do run in.
    last = max(i for i, each in enumerate(findings) if each.check in (sandboxes.ENGINE, sandboxes.BUBBLEWRAP))
    findings.insert(last + 1, sandboxes.conclusion(findings, workspace.backend_name))
    return Diagnosis(tuple(findings), time.monotonic() - started)


def _project_looks(directory: Path) -> list[tuple[str, _Look]]:
    return [
        ("project", partial(machine.project, directory)),
        ("manifest", partial(_project_files, ProjectPaths(directory))),
    ]


def _project_files(paths: ProjectPaths) -> Iterable[Finding]:
    """Whether the project's manifest and lock can be read, and go together."""
    from lockbuild.workflow.project import load_lock_if_any, load_project, require_current

    check, file = "manifest", paths.manifest
    try:
        project = load_project(paths)
        yield ok(check, "is valid", subject=str(file))
        check, file = "lock", paths.lock
        lock = load_lock_if_any(paths)
        if lock is None:
            yield warning(check, "there is none yet", subject=str(file), remedy="run `lockbuild lock`")
            return
        require_current(project, lock)
        yield ok(check, "is valid, and belongs to the manifest", subject=str(file))
    except StaleLockError as error:
        yield warning(check, error.what, subject=error.on, remedy=error.hint)
    except LockbuildError as error:
        yield problem(
            check, error.what, subject=error.on or str(file), remedy=error.hint, status=ExitStatus.USAGE
        )


def _configuration(workspace: Workspace) -> tuple[Config, list[Finding]]:
    """The configuration, or the defaults and what is wrong with it."""
    from lockbuild.config import Config, config_path

    path, _ = config_path(workspace.environ)
    try:
        config = workspace.config
    except LockbuildError as error:
        found = problem(
            "configuration", error.what, subject=error.on, remedy=error.hint, status=ExitStatus.USAGE
        )
        return Config(), [found]
    there = "is read" if path.is_file() else "there is none; what apt, pip and npm have is used"
    return config, [ok("configuration", there, subject=str(path))]


def _network(
    workspace: Workspace, config: Config, wanted: Sequence[places.Place], deadline: float, limit: float
) -> list[Finding]:
    from lockbuild.config.credentials import Credentials
    from lockbuild.doctor import login
    from lockbuild.transport.client import Client

    patient = places.patient(config)
    client = Client(patient)
    credentials = Credentials(patient, workspace.environ)
    hosts = network.hosts_to_resolve(place.asked for place in wanted)
    caches = login.caches(config)
    asking: list[Callable[[], list[Finding] | places.Answer]] = [
        *(partial(_named, host) for host in hosts),
        *(partial(places.ask, place, client, credentials) for place in wanted),
        *(partial(_logged_in, reference, patient, workspace) for reference in caches),
    ]
    results = in_parallel(asking, deadline - 0.2)
    client.close()
    findings: list[Finding] = []
    answers: list[places.Answer] = []
    subjects: list[tuple[str, str]] = [("dns", host) for host in hosts]
    subjects += [(place.kind, place.url) for place in wanted]
    subjects += [("registry", reference) for reference in caches]
    for (check, subject), result in zip(subjects, results, strict=True):
        if isinstance(result, Failed):
            findings.append(_failed(check, result, limit, subject=subject))
        elif isinstance(result, places.Answer):
            answers.append(result)
            findings.append(result.finding)
        else:
            findings += result
    findings += places.preference(answers)
    findings += places.clock_finding(answers)
    if wanted and not any(found.level == "ok" for found in findings if found.check in places.KINDS):
        findings.append(
            problem(
                "network",
                "none of the configured places answers: nothing can be locked or fetched",
                status=ExitStatus.FETCH,
                remedy="do what is said for one of them; with --offline lockbuild works with what the store has",
            )
        )
    return findings


def _named(host: str) -> list[Finding]:
    return [network.name(host)]


def _logged_in(reference: str, config: Config, workspace: Workspace) -> list[Finding]:
    from lockbuild.doctor import login

    return list(login.registry(reference, config, workspace.environ))


def _looked_at(looks: Sequence[tuple[str, _Look]], deadline: float, limit: float) -> list[Finding]:
    results = in_parallel([partial(_all, look) for _, look in looks], deadline)
    findings: list[Finding] = []
    for (check, _), result in zip(looks, results, strict=True):
        findings += [_failed(check, result, limit)] if isinstance(result, Failed) else result
    return findings


def _all(look: _Look) -> list[Finding]:
    return list(look())


def _failed(check: str, failed: Failed, limit: float, *, subject: str | None = None) -> Finding:
    from lockbuild.config.urls import redact, redact_text

    shown = None if subject is None else redact(subject)
    error = failed.error
    if error is None:
        return warning(check, f"no answer within {limit:.0f} s", subject=shown)
    if isinstance(error, LockbuildError):
        return warning(check, error.what, subject=shown or error.on, remedy=error.hint)
    told = redact_text(f"{type(error).__name__}: {error}")
    return warning(check, f"it could not be looked at: {told}", subject=shown)
