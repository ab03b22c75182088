"""Running on the host itself, without isolation: for looking at things, never for results that are recorded.

The fixed paths of a sandbox do not exist here. They stand for directories of a scratch directory (tools: of
the store), and are replaced wherever a variable's value names them. The base tree is not used at all.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from lockbuild.archive.rootfs import mounted_directory
from lockbuild.errors import SandboxError
from lockbuild.events import Note, Reporter
from lockbuild.interrupts import deferred, left_to_another
from lockbuild.model.environment import SandboxSpec
from lockbuild.sandbox.backend import Guarantees, Select, process_variables
from lockbuild.sandbox.export import Exported, export_directory
from lockbuild.sandbox.scratch import scratch_directory
from lockbuild.sandbox.terminal import have_terminal

WARNING = (
    "running on the host without a sandbox: the network, all files and this machine's programs are in reach,"
    " paths differ from build to build, and nothing about the result is reproducible or will be recorded"
)


class Host:
    """The host back-end. ``scratch`` is a directory on disk; ``report`` gets the warning."""

    name = "host"
    guarantees = Guarantees(
        network=False, filesystem=False, fixed_paths=False, address_randomisation_off=False
    )

    def __init__(self, scratch: Path, *, report: Reporter) -> None:
        self._scratch = scratch
        self._report = report

    def unavailable(self) -> str | None:
        """Never."""
        return None

    @contextmanager
    def session(self, spec: SandboxSpec) -> Iterator[HostSession]:
        """Copy the inputs, so that no command can change the store through them."""
        self._report(Note(WARNING, "warning"))
        with scratch_directory(self._scratch) as scratch:
            places: dict[str, Path] = {}
            for tree in spec.environment.trees:
                if tree.mount != "/":
                    places[tree.mount] = mounted_directory(tree)
            for item in spec.inputs:
                places[item.mount] = scratch / item.mount[1:]
                export_directory(item.directory, Exported(places[item.mount], None))
            for target in spec.writable:
                places[target] = scratch / target[1:]
                places[target].mkdir(parents=True, exist_ok=True)
            yield HostSession(spec, places)


class HostSession:
    """Directories of the host that stand for those of the sandbox."""

    def __init__(self, spec: SandboxSpec, places: Mapping[str, Path]) -> None:
        self._spec = spec
        self._places = places
        longest_first = sorted(places, key=len, reverse=True)
        names = "|".join(re.escape(name) for name in longest_first)
        # At the start of a word, or after an option's letter as in -I/build/source.
        self._pattern = re.compile(rf"(?:(?<![\w./-])|(?<=-[A-Z]))({names})(?![\w.-])")

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        output: Callable[[bytes], None],
    ) -> int:
        """See `Session.run`. Paths in ``argv`` are not replaced: steps name them by variables."""
        process: subprocess.Popen[bytes] | None = None
        try:
            with deferred():
                process = self._start(argv, cwd, variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            assert process.stdout is not None
            while chunk := process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
                output(chunk)
            return _shell_status(process.wait())
        finally:
            if process is not None:
                with deferred():
                    process.kill()
                    process.wait()
                    if process.stdout is not None:
                        process.stdout.close()

    def interactive(self, argv: Sequence[str], *, cwd: str, variables: Mapping[str, str]) -> int:
        """See `Session.interactive`."""
        with (
            left_to_another() if have_terminal() else nullcontext(),
            self._start(argv, cwd, variables, stdin=None, stdout=None) as process,
        ):
            return _shell_status(process.wait())

    def _start(
        self,
        argv: Sequence[str],
        cwd: str,
        variables: Mapping[str, str],
        *,
        stdin: int | None,
        stdout: int | None,
    ) -> subprocess.Popen[bytes]:
        seen = {
            name: self._replaced(value) for name, value in process_variables(self._spec, variables).items()
        }
        try:
            return subprocess.Popen(
                argv,
                cwd=self._replaced(cwd),
                env=seen,
                stdin=stdin,
                stdout=stdout,
                stderr=None if stdout is None else subprocess.STDOUT,
                umask=0o022,
            )
        except OSError as error:
            raise SandboxError(f"{argv[0]} cannot be run on this host: {error.strerror}") from error

    def _replaced(self, text: str) -> str:
        return self._pattern.sub(lambda match: str(self._places[match[1]]), text)

    def export(self, directory: str, destination: Path, *, select: Select | None = None) -> None:
        """See `Session.export`."""
        source = Path(self._replaced(directory))
        export_directory(source, Exported(destination, select))

    def seed(self, directory: str, source: Path) -> None:
        """See `Session.seed`."""
        export_directory(source, Exported(Path(self._replaced(directory)), None))


def _shell_status(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode
