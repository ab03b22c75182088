"""Sandboxes as containers of a Docker engine, local or remote, or of Podman through its compatible socket.

The environment is the image that has its trees as layers. Inputs are copied in through the engine's API, so
nothing needs to be shared with the engine's machine. Inputs and trees are protected as *read-only paths*,
which the runtime mounts read-only over themselves. Docker Engine API 1.41.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lockbuild.errors import SandboxError
from lockbuild.interrupts import completed
from lockbuild.model.digest import Digest
from lockbuild.model.environment import HOSTNAME, TMP_DIR, SandboxSpec
from lockbuild.sandbox.backend import Guarantees
from lockbuild.sandbox.container import ContainerSession, engine_errors
from lockbuild.sandbox.layout import read_only_paths
from lockbuild.sandbox.owner import Owner
from lockbuild.sandbox.seccomp import Filter, engine_filter, security_option
from lockbuild.sandbox.upload import Upload, upload_stream
from lockbuild.transport.engine import API_VERSION, EngineEndpoint, EngineKind, find_engine

if TYPE_CHECKING:
    from docker import APIClient

OWNER_LABEL = "lockbuild.owner"
"""On every container of ours; its value is the `Owner`."""

_SYSTEM_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
"""The read-only paths that an engine sets by itself when it is given no list."""

_MASKED_PATHS = [
    *("/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"),
    # Ours: hardware differs from machine to machine, and bubblewrap shows none of it.
    "/sys",
]
"""The paths that an engine hides by itself when it is given no list, and what hides the hardware."""

_WAIT_FOR_END = ["/bin/sh", "-c", "cat >/dev/null; :"]
"""The first process: it ends when its standard input does, which is when lockbuild ends, however that ends.
(Not so with Podman, which leaves the input open: there the next session removes what is left.) A shell,
because a shell also reaps the orphans that commands leave."""

_REMOVAL_SECONDS = 30


class Docker:
    """The Docker back-end. ``endpoint`` is the engine; None looks for one in ``environ``."""

    name = "docker"

    def __init__(self, environ: Mapping[str, str], *, endpoint: EngineEndpoint | None = None) -> None:
        self._environ = environ
        self._endpoint = endpoint
        self._profile_refused = False

    @property
    def guarantees(self) -> Guarantees:
        """Everything; address randomisation stays on where the engine's administrator chose a seccomp profile, where
        the engine refuses ours, and in an environment without setarch(1)."""
        fixed = self.endpoint is not None and self._filter != "chosen" and not self._profile_refused
        return Guarantees(network=True, filesystem=True, fixed_paths=True, address_randomisation_off=fixed)

    @cached_property
    def _filter(self) -> Filter:
        assert self.endpoint is not None
        return engine_filter(self.endpoint)

    @property
    def endpoint(self) -> EngineEndpoint | None:
        """The engine that it uses; None where none answers."""
        if self._endpoint is None:
            self._endpoint = find_engine(self._environ)
        return self._endpoint

    def unavailable(self) -> str | None:
        """Pings the engine."""
        if self.endpoint is None:
            where = self._environ.get("DOCKER_HOST")
            if where and where.startswith("ssh:"):
                return (
                    "DOCKER_HOST is an ssh:// address, which is not supported; forward the socket with"
                    " `ssh -L` and set DOCKER_HOST to its unix:// address"
                )
            place = f" at {where}" if where else ""
            return (
                f"no container engine answers{place}; start Docker (`systemctl start docker`) or Podman's socket"
                " (`systemctl --user start podman.socket`)"
            )
        return None

    @contextmanager
    def session(self, spec: SandboxSpec) -> Iterator[ContainerSession]:
        """Create a container, copy the inputs in and start it. It is gone afterwards, with Docker also after
        ``kill -9``."""
        reason = self.unavailable()
        if self.endpoint is None or reason is not None:
            raise SandboxError("there is no container engine", hint=reason)
        if spec.image is None:
            raise SandboxError("the environment has no image", hint="run `lockbuild sync`")
        with ExitStack() as stack:
            client = stack.enter_context(_client(self.endpoint))
            with engine_errors(self.endpoint):
                remove_leftovers(client)
            name = f"lockbuild-{secrets.token_hex(8)}"
            # Closed last: a container that ends by itself while it is removed confuses Podman.
            standard_input = stack.enter_context(ExitStack())
            stack.callback(completed, partial(_remove, client, name))
            with engine_errors(self.endpoint):
                self._create(client, name, spec, spec.image, self.endpoint)
                client.put_archive(name, "/", upload_stream(_uploads(spec)))
                stream = client.attach_socket(name, params={"stdin": 1, "stream": 1})
                standard_input.callback(_close_stream, stream)
                client.start(name)
            yield ContainerSession(client, self.endpoint, name, spec)

    def _create(
        self, client: APIClient, name: str, spec: SandboxSpec, image: Digest, endpoint: EngineEndpoint
    ) -> None:
        """With our seccomp profile where that stands for the engine's own, and without where it will not have it."""
        from docker.errors import APIError

        if self._filter == "built-in" and not self._profile_refused:
            try:
                _create(client, name, spec, image, endpoint.kind, [security_option(endpoint)])
                return
            except APIError as error:
                # Podman looks for the file on its own machine.
                if "seccomp" not in str(error.explanation):
                    raise
                self._profile_refused = True
        _create(client, name, spec, image, endpoint.kind, [])


@contextmanager
def _client(endpoint: EngineEndpoint) -> Iterator[APIClient]:
    import docker
    from docker.tls import TLSConfig

    tls: Any = False
    if endpoint.tls is not None:
        material = endpoint.tls.directory
        tls = TLSConfig(
            client_cert=(str(material / "cert.pem"), str(material / "key.pem")),
            ca_cert=str(material / "ca.pem"),
            verify=endpoint.tls.verify,
        )
    with engine_errors(endpoint):
        # No time limit: a compiler may be silent for as long as it likes.
        unlimited: Any = None
        client = docker.APIClient(base_url=endpoint.url, version=API_VERSION, tls=tls, timeout=unlimited)
    try:
        yield client
    finally:
        client.close()


def _uploads(spec: SandboxSpec) -> list[Upload]:
    inputs = [Upload(item.mount, item.directory) for item in spec.inputs]
    return inputs + [Upload(path, mode=0o1777 if path == TMP_DIR else 0o755) for path in spec.writable]


def _create(
    client: APIClient, name: str, spec: SandboxSpec, image: Digest, kind: EngineKind, security: list[str]
) -> None:
    from docker.errors import ImageNotFound

    host = client.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", *security],
        auto_remove=True,
    )
    volumes: list[str] = []
    if kind == "podman":
        # Podman takes no lists of paths through this API. But it lets files be copied into a container that
        # has a read-only root, which Docker does not.
        host["ReadonlyRootfs"] = True
        host["SecurityOpt"] += [f"mask={path}" for path in _MASKED_PATHS[-1:]]
        volumes = list(spec.writable)
    else:
        trees = [tree.root for tree in spec.environment.trees]
        inputs = [item.mount for item in spec.inputs]
        host["MaskedPaths"] = _MASKED_PATHS
        host["ReadonlyPaths"] = [*_SYSTEM_PATHS, *read_only_paths(trees, spec.writable), *inputs]
    try:
        client.create_container(
            str(image),
            entrypoint=_WAIT_FOR_END,
            host_config=host,
            name=name,
            # Only the first process is root (without any capability): commands must not be able to end it
            # when they end what they left behind.
            user="0:0",
            hostname=HOSTNAME,
            working_dir="/",
            stdin_open=True,
            volumes=volumes,
            labels={OWNER_LABEL: str(Owner.current())},
        )
    except ImageNotFound:
        raise SandboxError(
            "the engine does not have the environment's image", on=str(image), hint="run `lockbuild sync`"
        ) from None


def remove_leftovers(client: APIClient) -> None:
    """Remove the containers of ours whose lockbuild was killed before it could start or remove them."""
    for container in client.containers(all=True, filters={"label": OWNER_LABEL}):
        owner = Owner.parse(container["Labels"][OWNER_LABEL])
        ended = container["State"] in ("exited", "stopped", "dead")
        if owner is not None and (ended or owner.is_dead()):
            _remove(client, container["Id"])


def _remove(client: APIClient, name: str) -> None:
    """Remove the container and wait until it is gone. Its end removes it as well, which may be under way."""
    from docker.errors import APIError, NotFound

    limit = time.monotonic() + _REMOVAL_SECONDS
    while True:
        try:
            client.remove_container(name, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            # 409: its removal is in progress. 500 is Podman's answer when it ends at that very moment.
            if error.status_code not in (409, 500) or time.monotonic() > limit:
                raise SandboxError(
                    f"the engine could not remove the container {name}: {error.explanation}"
                ) from error
        time.sleep(0.02)


def _close_stream(stream: Any) -> None:
    """docker-py hands out a SocketIO, whose close leaves the socket open."""
    socket = getattr(stream, "_sock", None)
    stream.close()
    if socket is not None:
        socket.close()
