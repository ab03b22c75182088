"""The tables of the configuration file, and the answers to what they leave out. Format: ``docs/formats.md``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from lockbuild.config.fields import Registry, Repository, Section, Url, Urls
from lockbuild.config.hosts import HostConfig
from lockbuild.config.mirrors import Mirror, by_digest, places
from lockbuild.config.urls import Origin, origin

T = TypeVar("T")


class DebianConfig(Section):
    """``[debian]``: where Debian archives are, and what to believe of them."""

    mirrors: Urls | None = None
    """Base URLs of Debian archives, the preferred one first; by default those of apt's sources."""
    snapshot: Url | None = None
    """Where old states of the archive stand by timestamp (``…/archive/debian``), or with ``@SNAPSHOTID@`` in the
    timestamp's place, as apt writes it; by default what apt's configuration names."""
    keyring: str | None = None
    """OpenPGP keyring that signed indexes are verified against, relative to this file; by default the one that
    apt's source names, else the Debian archive's."""
    allow_expired: bool | None = None
    """Accept signed indexes past their Valid-Until; by default whether apt is told to."""


class PypiConfig(Section):
    """``[pypi]``: where Python package indexes (the simple repository API) are."""

    indexes: Urls | None = None
    """Base URLs, the preferred one first; by default those that pip uses."""


class NpmConfig(Section):
    """``[npm]``: where packages of npm are."""

    registry: Url | None = None
    """Base URL of the registry; by default that of npm's own configuration."""


class RegistriesConfig(Section):
    """``[registries]``: how to talk to registries of images. Their credentials are those of ``docker login``."""

    plain_http: list[Registry] = []
    """Registries (``host`` or ``host:port``) that are spoken to without TLS. Those on the loopback interface may be
    without it anyway."""


class CacheConfig(Section):
    """``[cache]``: repositories of image registries that keep what syncs and builds make. What comes from one is
    verified, so it need not be trusted."""

    read: list[Repository] = []
    """Where to look before anything is fetched, derived or unpacked, in order."""
    write: Repository | None = None
    """Where what had to be fetched or made is put afterwards, if there are credentials for it."""
    outputs: bool = False
    """Whether ``build`` takes outputs from there in place of building, where the lock records their hashes for just
    these inputs."""


class NetworkConfig(Section):
    """``[network]``: how to talk to servers."""

    timeout: Annotated[float, Field(gt=0, le=3600, strict=False)] = 30.0
    """Seconds to connect, and between two reads."""
    retries: Annotated[int, Field(ge=0, le=20)] = 4
    """How often to try again after the first attempt."""
    connections: Annotated[int, Field(ge=1, le=64)] = 8
    """How many are open at once."""
    ca: list[str] = []
    """Files of certificate authorities (PEM) to trust beside the system's, also for proxies; relative to this file."""


class Config(Section):
    """The user's configuration.

    The methods answer from it, else from apt's, pip's or npm's; each of those is asked once.
    """

    _answers: dict[str, Any] = PrivateAttr(default_factory=dict)

    debian: DebianConfig = DebianConfig()
    """Debian archives."""
    pypi: PypiConfig = PypiConfig()
    """Python package indexes."""
    network: NetworkConfig = NetworkConfig()
    """Connections."""
    npm: NpmConfig = NpmConfig()
    """The npm registry."""
    registries: RegistriesConfig = RegistriesConfig()
    """Registries of images."""
    cache: CacheConfig = CacheConfig()
    """Registries as a cache."""
    hosts: list[HostConfig] = []
    """Credentials and client certificates, each for one host, port and scheme."""
    mirrors: list[Mirror] = []
    """Other places for what is below a prefix, or for everything by its digest."""

    @model_validator(mode="after")
    def _one_of_each_host(self) -> Config:
        seen: set[Origin] = set()
        for index, host in enumerate(self.hosts):
            if host.origin in seen:
                raise ValueError(f"hosts[{index}].host: {host.host} is there twice")
            seen.add(host.origin)
        return self

    def npm_registry(self, package: str) -> str:
        """Base URL of the registry that has ``package`` (as ``name`` or ``@scope/name``), without a final slash."""
        if self.npm.registry is not None:
            return self.npm.registry.rstrip("/")
        from lockbuild.config.npm import registry

        scope = package.partition("/")[0] if package.startswith("@") else ""
        return self._once(f"npm {scope}", lambda: registry(package))

    def places(self, url: str) -> list[str]:
        """Where to look for ``url``, in order: what the mirrors with the longest prefix say, else ``url`` itself."""
        return places(self.mirrors, url)

    def places_of_digest(self, *, sha256: str | None, sha512: str | None = None) -> list[str]:
        """Where bytes with these digests (hexadecimal digits) may be, whatever their original place."""
        return list(by_digest(self.mirrors, sha256=sha256, sha512=sha512))

    def debian_mirrors(self) -> list[str]:
        """Base URLs of Debian archives, the preferred one first."""
        if self.debian.mirrors is not None:
            return list(self.debian.mirrors)
        from lockbuild.config.apt import archive_mirrors

        return list(self._once("archive_mirrors", archive_mirrors))

    def snapshot_service(self) -> str | None:
        """Where old states of the Debian archive are kept, if any place is known."""
        if self.debian.snapshot is not None:
            return self.debian.snapshot
        from lockbuild.config.apt import snapshot_service

        return self._once("snapshot_service", snapshot_service)

    def debian_keyring(self) -> Path:
        """The OpenPGP keyring that signed Debian indexes are verified against."""
        if self.debian.keyring is not None:
            return Path(self.debian.keyring)
        from lockbuild.config.apt import keyring

        return self._once("keyring", keyring)

    def accepts_expired(self) -> bool:
        """Whether signed indexes past their Valid-Until are taken: the user's word, else the administrator's to apt."""
        if self.debian.allow_expired is not None:
            return self.debian.allow_expired
        from lockbuild.config import apt

        return self._once("accepts_expired", apt.accepts_expired)

    def pypi_indexes(self) -> list[str]:
        """Base URLs of Python package indexes, the preferred one first."""
        if self.pypi.indexes is not None:
            return list(self.pypi.indexes)
        from lockbuild.config.pip import indexes

        return list(self._once("indexes", indexes))

    def setting_of(self, url: str) -> str | None:
        """For people: which setting named the place that ``url`` is below; None where none did.

        Nothing is read for it: whoever has such a URL has asked for the setting already.
        """
        own = "lockbuild's config.toml"
        named: list[tuple[str, Any]] = [
            (f"[[mirrors]] in {own}", [place for mirror in self.mirrors for place in mirror.to or ()]),
            (f"[debian] mirrors in {own}", self.debian.mirrors),
            (f"[debian] snapshot in {own}", self.debian.snapshot),
            (f"[pypi] indexes in {own}", self.pypi.indexes),
            (f"[npm] registry in {own}", self.npm.registry),
            ("apt's sources", self._answers.get("archive_mirrors")),
            ("apt's configuration of snapshots", self._answers.get("snapshot_service")),
            ("pip's configuration (index-url, extra-index-url)", self._answers.get("indexes")),
            ("npm's configuration (registry)", self._answers.get("npm ")),
        ]
        for setting, value in named:
            for place in [value] if isinstance(value, str) else value or ():
                if _same_server(place, url):
                    return setting
        return None

    def _once(self, question: str, ask: Callable[[], T]) -> T:
        """What the machine's configuration says: another program has to be run for some of it."""
        if question not in self._answers:
            self._answers[question] = ask()
        answer: T = self._answers[question]
        return answer


def _same_server(place: str, url: str) -> bool:
    try:
        return origin(urlsplit(place)) == origin(urlsplit(url))
    except ValueError:
        return False
