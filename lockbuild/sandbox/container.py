"""Running commands in a started container, and moving files in and out of it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import LockbuildError, SandboxError
from lockbuild.interrupts import left_to_another
from lockbuild.model.environment import GID, UID, SandboxSpec
from lockbuild.sandbox.backend import Select, env_command, process_variables
from lockbuild.sandbox.export import Exported, export_tar
from lockbuild.sandbox.upload import contents_stream
from lockbuild.transport.engine import API_VERSION, EngineEndpoint

if TYPE_CHECKING:
    from docker import APIClient

_AFTERWARDS = '"$@"; status=$?; kill -9 -1 2>/dev/null; exit $status'
"""Ends what a command leaves running: all that the build user may signal, which is not the first process."""

_FIXED_ADDRESSES = (
    '/usr/bin/setarch linux64 -R /bin/sh -c : 2>/dev/null >&2 && set -- /usr/bin/setarch linux64 -R "$@"; '
)
"""Switches address randomisation off where the environment has setarch(1) and the seccomp filter lets it."""

_COMMAND = ["/bin/sh", "-c", "umask 022; exec 2>&1; " + _FIXED_ADDRESSES + _AFTERWARDS, "sh"]
_TERMINAL_COMMAND = ["/bin/sh", "-c", "umask 022; " + _FIXED_ADDRESSES + _AFTERWARDS, "sh"]
_RUNTIME_FAILURES = (b"OCI runtime exec failed", b"Error: runc: ", b"Error: crun: ")
"""How the output begins, in Docker and in Podman, where the command could not even be started."""


class ContainerSession:
    """A running container; every command is an exec in it, as the build user."""

    def __init__(self, client: APIClient, endpoint: EngineEndpoint, name: str, spec: SandboxSpec) -> None:
        self._client = client
        self._endpoint = endpoint
        self._name = name
        self._spec = spec

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        output: Callable[[bytes], None],
    ) -> int:
        """See `Session.run`."""
        command = [*_COMMAND, *env_command(process_variables(self._spec, variables), argv)]
        said = b""
        with engine_errors(self._endpoint):
            execution = self._client.exec_create(self._name, command, user=f"{UID}:{GID}", workdir=cwd)["Id"]
            for chunk in _start(self._endpoint, execution):
                said = said or chunk
                output(chunk)
            status = self._exit_status(execution)
        if status in (126, 127) and said.startswith(_RUNTIME_FAILURES):
            raise SandboxError(
                f"the engine could not run a command: {said.decode('utf-8', 'replace').strip()}"
            )
        return status

    def _exit_status(self, execution: str) -> int:
        """The stream ends a moment before the engine knows the status."""
        while True:
            state = self._client.exec_inspect(execution)
            if not state["Running"] and state["ExitCode"] is not None:
                return int(state["ExitCode"])
            time.sleep(0.005)

    def interactive(self, argv: Sequence[str], *, cwd: str, variables: Mapping[str, str]) -> int:
        """See `Session.interactive`. The engine's own command drives the terminal."""
        program = shutil.which("docker")
        address = ["-H", self._endpoint.url]
        if program is None and self._endpoint.kind == "podman":
            program, address = shutil.which("podman"), ["--remote", "--url", self._endpoint.url]
        if program is None:
            raise SandboxError(
                "an interactive session in a container needs the docker command, which is not installed",
                hint="install it (`apt install docker-cli`), or use --backend bubblewrap",
            )
        if (tls := self._endpoint.tls) is not None:
            files = {"--tlscacert": "ca.pem", "--tlscert": "cert.pem", "--tlskey": "key.pem"}
            address.append("--tlsverify" if tls.verify else "--tls")
            address += [f"{option}={tls.directory / file}" for option, file in files.items()]
        terminal = os.isatty(0) and os.isatty(1)
        command = [*_TERMINAL_COMMAND, *env_command(process_variables(self._spec, variables), argv)]
        options = ["-i", *(["-t"] if terminal else []), "-u", f"{UID}:{GID}", "-w", cwd]
        with left_to_another() if terminal else nullcontext():
            return subprocess.run([program, *address, "exec", *options, self._name, *command]).returncode

    def export(self, directory: str, destination: Path, *, select: Select | None = None) -> None:
        """See `Session.export`."""
        with engine_errors(self._endpoint):
            export_tar(
                self._archive(directory),
                Exported(destination, select),
                lambda relative: self._archive(f"{directory}/{relative}"),
            )

    def _archive(self, path: str) -> Iterable[bytes]:
        stream: Iterable[bytes] = self._client.get_archive(self._name, path)[0]
        return stream

    def seed(self, directory: str, source: Path) -> None:
        """See `Session.seed`."""
        with engine_errors(self._endpoint):
            self._client.put_archive(self._name, directory, contents_stream(source))


def _start(endpoint: EngineEndpoint, execution: str) -> Iterator[bytes]:
    """Start an exec and give what it writes: frames with a header of eight bytes, the last four their size.

    Not docker-py's way: that reads past the response's buffer, where the first bytes can already be,
    and leaves the connection open.
    """
    connection = endpoint.connect(None)
    try:
        connection.request(
            "POST",
            f"/v{API_VERSION}/exec/{execution}/start",
            body=json.dumps({"Detach": False, "Tty": False}),
            headers={"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            answer = response.read().decode("utf-8", "replace")
            raise SandboxError(f"the container engine could not start a command: {answer}", on=endpoint.url)
        while len(header := response.read(8)) == 8:
            yield response.read(int.from_bytes(header[4:]))
    except (OSError, http.client.HTTPException) as error:
        raise SandboxError(
            f"the connection to the container engine broke: {error}", on=endpoint.url
        ) from error
    finally:
        connection.close()


@contextmanager
def engine_errors(endpoint: EngineEndpoint) -> Iterator[None]:
    """Turn what docker-py raises into SandboxError."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except LockbuildError:
        raise
    except APIError as error:
        raise SandboxError(
            f"the container engine refused: {error.explanation or error}", on=endpoint.url
        ) from error
    except (DockerException, RequestException) as error:
        raise SandboxError(
            f"the container engine failed: {error}", on=endpoint.url, hint="is it still running?"
        ) from error
