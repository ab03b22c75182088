"""What a sandbox back-end is: one spec in, sessions out. Docker, bubblewrap and the host implement it.

Whatever the back-end, processes see the same: the environment's trees, read-only inputs, writable directories
owned by the build user, a loopback interface and nothing else, exactly the variables they are given, umask
022, /dev/null as standard input and one stream for both outputs. When a command has ended, whatever it left
running in the background is ended too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lockbuild.model.environment import SandboxSpec

Select = Callable[[str], bool]
"""Whether to take the file at this path (posix, relative to the exported directory)."""

ENV_PROGRAM = "/usr/bin/env"
"""Starts every command with exactly its variables, whatever an engine or bubblewrap would add."""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a back-end keeps from a build, or keeps fixed for it."""

    network: bool
    filesystem: bool
    fixed_paths: bool
    address_randomisation_off: bool

    @property
    def reproducible(self) -> bool:
        """Whether results may be recorded: no network, no foreign files, the same paths everywhere."""
        return self.network and self.filesystem and self.fixed_paths


class Session(Protocol):
    """A sandbox with its writable directories, from its start to its end."""

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        output: Callable[[bytes], None],
    ) -> int:
        """Run ``argv`` in ``cwd``; its exit status (128 + n for signal n, 127 for an unknown command).

        ``variables`` go over those of the spec and its environment. ``output`` gets what the
        command writes, as it comes. SandboxError where the sandbox itself fails.
        """
        ...

    def interactive(self, argv: Sequence[str], *, cwd: str, variables: Mapping[str, str]) -> int:
        """The same on the caller's terminal."""
        ...

    def export(self, directory: str, destination: Path, *, select: Select | None = None) -> None:
        """Copy what is below the sandbox path ``directory`` into ``destination`` (made where absent).

        With ``select`` only the regular files that it accepts (BuildError where it accepts anything else);
        without it also symbolic links, as they are, and empty directories, but no sockets, fifos and devices.
        Modes become 0755 or 0644 by the owner's execute bit. No link is followed, on either side.
        """
        ...

    def seed(self, directory: str, source: Path) -> None:
        """Fill the writable ``directory`` with a copy of what is below ``source``, before running."""
        ...


class Backend(Protocol):
    """A way to run a `SandboxSpec`."""

    @property
    def name(self) -> str:
        """As the command line names it."""
        ...

    @property
    def guarantees(self) -> Guarantees:
        """What it keeps from a build on this machine."""
        ...

    def unavailable(self) -> str | None:
        """Why it cannot be used here, with the remedy, as one sentence; None where it works. Really tries."""
        ...

    def session(self, spec: SandboxSpec) -> AbstractContextManager[Session]:
        """Set the sandbox up; on leaving, every process in it is ended and nothing of it remains."""
        ...


def process_variables(spec: SandboxSpec, variables: Mapping[str, str]) -> dict[str, str]:
    """What a process sees: the environment's variables, the spec's over them, then the command's; sorted."""
    return dict(sorted({**spec.environment.variables, **spec.variables, **variables}.items()))


def env_command(variables: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """``argv`` started by env(1) with exactly ``variables``."""
    return [ENV_PROGRAM, "-i", *(f"{name}={value}" for name, value in variables.items()), *argv]
