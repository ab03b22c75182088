"""Sandboxes made of Linux namespaces by bubblewrap (bwrap(1)), for ordinary users and without a daemon.

The environment's trees are mounted straight from the store, read-only; writable directories lie on disk in
a scratch directory. One process tree for each command: it dies as a whole when the command ends, when
lockbuild is killed, and when a run is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from lockbuild.archive.rootfs import View, plain_directory
from lockbuild.errors import SandboxError
from lockbuild.model.environment import GID, HOSTNAME, TMP_DIR, UID, SandboxSpec
from lockbuild.sandbox.backend import ENV_PROGRAM, Guarantees, Select, env_command, process_variables
from lockbuild.sandbox.bwrap_process import run_process
from lockbuild.sandbox.bwrap_program import INSTALL, find_program, is_setuid, why_unusable
from lockbuild.sandbox.export import Exported, export_directory
from lockbuild.sandbox.layout import Mount, base_tree, compose, read_only_mounts
from lockbuild.sandbox.personality import fixed_addresses
from lockbuild.sandbox.scratch import scratch_directory
from lockbuild.sandbox.terminal import TAKE_TERMINAL, have_terminal, own_terminal


class Bubblewrap:
    """The bubblewrap back-end. ``scratch`` is a directory on disk for what builds write; ``program`` the
    bwrap to use instead of the one that is found."""

    name = "bubblewrap"

    def __init__(self, scratch: Path, *, program: Path | None = None) -> None:
        self._scratch = scratch
        self._given = program

    @cached_property
    def _program(self) -> Path | None:
        return self._given or find_program()

    @cached_property
    def guarantees(self) -> Guarantees:
        """Everything; address randomisation stays on where the kernel does not let us switch it off."""
        with fixed_addresses() as fixed:
            effective = fixed and self._program is not None and not is_setuid(self._program)
        return Guarantees(
            network=True, filesystem=True, fixed_paths=True, address_randomisation_off=effective
        )

    def unavailable(self) -> str | None:
        """Runs bwrap once, as a session would."""
        if self._program is None:
            return f"bubblewrap (bwrap) is not installed; {INSTALL}"
        return why_unusable(self._program)

    @contextmanager
    def session(self, spec: SandboxSpec) -> Iterator[BubblewrapSession]:
        """Lay out the root and the writable directories in the scratch directory."""
        if self._program is None:
            raise SandboxError("bubblewrap (bwrap) is not installed", hint=INSTALL)
        base = base_tree(spec)
        if View(spec.environment.trees).locate(ENV_PROGRAM) is None:
            raise SandboxError(
                f"the environment has no {ENV_PROGRAM}", hint="add a package that has it: coreutils"
            )
        with scratch_directory(self._scratch) as scratch:
            directories = _make_writable(spec.writable, scratch / "writable")
            writable = [Mount(path, target, writable=True) for target, path in directories.items()]
            mounts = compose(base, [*read_only_mounts(spec), *writable], scratch / "root")
            yield BubblewrapSession(self._program, spec, mounts, directories)


class BubblewrapSession:
    """A root layout and writable directories; every command gets namespaces of its own."""

    def __init__(
        self, program: Path, spec: SandboxSpec, mounts: Sequence[Mount], directories: Mapping[str, Path]
    ) -> None:
        self._program = program
        self._spec = spec
        self._mounts = mounts
        self._directories = directories

    def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        new_session: bool = True,
        first: Sequence[str] = (),
    ) -> list[str]:
        """The bwrap command line that runs ``argv``, started by ``first`` where that is to be the first process."""
        words = [
            str(self._program),
            # A user namespace whoever calls, so that root and ordinary users get the same view.
            *("--unshare-all", "--unshare-user", "--uid", str(UID), "--gid", str(GID)),
            *("--hostname", HOSTNAME, "--die-with-parent", "--cap-drop", "ALL", "--clearenv"),
        ]
        if new_session:
            words.append("--new-session")
        for mount in self._mounts:
            words += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
        # bwrap's /dev is a writable tmpfs; in a container it is not writable, but /dev/shm is.
        words += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--remount-ro", "/dev", "--chdir", cwd, *(["--as-pid-1"] if first else []), "--", *first]
        return words + env_command(process_variables(self._spec, variables), argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        output: Callable[[bytes], None],
    ) -> int:
        """See `Session.run`."""
        return run_process(self.command(argv, cwd=cwd, variables=variables), output)

    def interactive(self, argv: Sequence[str], *, cwd: str, variables: Mapping[str, str]) -> int:
        """See `Session.interactive`."""
        if not have_terminal() or View(self._spec.environment.trees).locate(TAKE_TERMINAL[0]) is None:
            return run_process(self.command(argv, cwd=cwd, variables=variables, new_session=False), None)
        command = self.command(argv, cwd=cwd, variables=variables, first=TAKE_TERMINAL)
        with own_terminal() as terminal:
            return run_process(command, None, terminal)

    def export(self, directory: str, destination: Path, *, select: Select | None = None) -> None:
        """See `Session.export`."""
        source = self._host_path(directory)
        export_directory(source, Exported(destination, select))

    def seed(self, directory: str, source: Path) -> None:
        """See `Session.seed`."""
        into = self._host_path(directory)
        export_directory(source, Exported(into, None))

    def _host_path(self, directory: str) -> Path:
        for target, path in self._directories.items():
            if directory == target:
                return path
            if directory.startswith(target + "/"):
                below = plain_directory(path, directory[len(target) + 1 :])
                if below is not None:
                    return below
        raise SandboxError(f"{directory} is not a writable directory of the sandbox")


def _make_writable(targets: Sequence[str], parent: Path) -> dict[str, Path]:
    parent.mkdir()
    directories = {}
    for number, target in enumerate(targets):
        path = parent / str(number)
        path.mkdir()
        path.chmod(0o1777 if target == TMP_DIR else 0o755)
        os.utime(path, (0, 0))
        directories[target] = path
    return directories
