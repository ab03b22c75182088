"""The configuration that is in force: each value, and where it comes from. Nothing secret is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lockbuild.config.credentials import netrc_path
from lockbuild.config.docker import DockerCredentials
from lockbuild.config.fields import Section
from lockbuild.config.settings import Config
from lockbuild.config.urls import redact
from lockbuild.errors import UsageError

Origin = Literal["file", "apt", "pip", "npm", "environment", "default"]
Value = str | int | float | bool | list[str] | None
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value: ``key`` as the file has it (`mirrors[0].to`) or the name of a variable; None where there is none."""

    key: str
    value: Value
    origin: Origin


def effective(config: Config, environ: Mapping[str, str]) -> list[Setting]:
    """Everything that decides where bytes come from, in the order of the documentation. No keyring is opened.

    What apt, pip and npm cannot tell is None.
    """
    return [
        *_or_else(config, "debian.mirrors", "apt", config.debian_mirrors),
        *_or_else(config, "debian.snapshot", "apt", config.snapshot_service),
        *_or_else(config, "debian.keyring", "apt", lambda: str(config.debian_keyring())),
        *_or_else(config, "debian.allow-expired", "apt", config.accepts_expired),
        *_or_else(config, "pypi.indexes", "pip", config.pypi_indexes),
        *_or_else(config, "npm.registry", "npm", lambda: config.npm_registry("")),
        *_section(config, "network"),
        *_section(config, "registries"),
        *_section(config, "cache"),
        *(setting for index, host in enumerate(config.hosts) for setting in _table(f"hosts[{index}]", host)),
        *(
            setting
            for index, each in enumerate(config.mirrors)
            for setting in _table(f"mirrors[{index}]", each)
        ),
        *_environment(config, environ),
    ]


def _or_else(config: Config, key: str, program: Origin, ask: Callable[[], Value]) -> Iterator[Setting]:
    """The file's value, else what ``ask`` finds out from the configuration of ``program``."""
    table, _, name = key.partition(".")
    given = getattr(getattr(config, table), name.replace("-", "_")) is not None
    try:
        value = ask()
    except UsageError:
        value = None
    yield Setting(key, _shown(value), "file" if given else program)


def _section(config: Config, table: str) -> Iterator[Setting]:
    """Every value of a table that nothing but the file has."""
    section = getattr(config, table)
    for name, field in type(section).model_fields.items():
        origin: Origin = "file" if name in section.model_fields_set else "default"
        yield Setting(f"{table}.{field.alias or name}", getattr(section, name), origin)


def _table(key: str, table: Section) -> Iterator[Setting]:
    for name, field in type(table).model_fields.items():
        value = getattr(table, name)
        if value is not None:
            yield Setting(f"{key}.{field.alias or name}", _shown(value), "file")


def _environment(config: Config, environ: Mapping[str, str]) -> Iterator[Setting]:
    for host in config.hosts:
        if host.token_env is not None:
            yield Setting(host.token_env, "***" if environ.get(host.token_env) else None, "environment")
    for proxy in _PROXIES:
        for name in (proxy, proxy.upper()):
            if environ.get(name):
                value = environ[name] if proxy == "no_proxy" else _proxy(environ[name])
                yield Setting(name, value, "environment")
    for name in _BUNDLES:
        if environ.get(name):
            yield Setting(name, environ[name], "environment")
    netrc = netrc_path(environ)
    if netrc is not None:
        yield Setting("netrc", str(netrc), "environment" if environ.get("NETRC") else "default")
    docker = DockerCredentials(environ).path
    if docker.is_file():
        yield Setting("docker", str(docker), "environment" if environ.get("DOCKER_CONFIG") else "default")


def _proxy(value: str) -> str:
    """A proxy may be given without a scheme; then its user name would be taken for one."""
    return redact(value) if "://" in value else redact(f"http://{value}").removeprefix("http://")


def _shown(value: Any) -> Value:
    if isinstance(value, list):
        return [redact(str(item)) for item in value]
    if isinstance(value, str):
        return redact(value) if "://" in value else value
    return value if isinstance(value, int | float) or value is None else str(value)
