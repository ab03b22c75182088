"""Choosing the back-end. Nothing ever runs without a sandbox unless that was asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from lockbuild.errors import SandboxError
from lockbuild.events import Note, Reporter, silent
from lockbuild.sandbox.backend import Backend

Wanted = Literal["auto", "docker", "bubblewrap", "host"]


def choose(
    wanted: Wanted, environ: Mapping[str, str], *, scratch: Path, report: Reporter = silent
) -> Backend:
    """The back-end to use: one that works here, or SandboxError (status 7) saying how to get one.

    ``auto`` takes a container engine that answers, else bubblewrap. ``scratch`` is a directory on disk for
    what builds write.
    """
    if wanted == "host":
        from lockbuild.sandbox.host import Host

        return Host(scratch, report=report)
    reasons = []
    if wanted in ("auto", "docker"):
        from lockbuild.sandbox.docker import Docker

        docker = Docker(environ)
        reason = docker.unavailable()
        if reason is None:
            return docker
        reasons.append(reason)
    if wanted in ("auto", "bubblewrap"):
        from lockbuild.sandbox.bubblewrap import Bubblewrap

        bubblewrap = Bubblewrap(scratch)
        reason = bubblewrap.unavailable()
        if reason is None:
            if reasons:
                report(Note(f"using bubblewrap: {reasons[0]}", "debug"))
            return bubblewrap
        reasons.append(reason)
    what = "there is no usable sandbox" if wanted == "auto" else f"the {wanted} sandbox cannot be used"
    raise SandboxError(what, hint="; or: ".join(reasons))
