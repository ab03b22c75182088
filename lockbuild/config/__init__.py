"""Where bytes may come from: the user's configuration, never part of a lock.

``config.toml`` is what ``LOCKBUILD_CONFIG`` names, else the one in the user's configuration directory
(XDG base directory specification). What it leaves out comes from the machine's own apt and pip
configuration, read only when somebody asks. Format: ``docs/formats.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lockbuild.config.urls import redact
from lockbuild.errors import UsageError
from lockbuild.model.base import FileModel
from lockbuild.model.read import parse_toml, validate

__all__ = ["Config", "DebianConfig", "NetworkConfig", "PypiConfig", "load"]


def _url(value: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        valid = valid or (parts.scheme == "file" and parts.path.startswith("/"))
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("is not an http://, https:// or file:// URL")
    return value


Url = Annotated[str, AfterValidator(_url), Field(json_schema_extra={"pattern": "^(https?://[^/]|file:/)"})]
Urls = Annotated[list[Url], Field(min_length=1)]


class _Section(FileModel):
    """A table of the file whose representation shows no credential."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if isinstance(value, list):
                yield name, [redact(item) for item in value]
            else:
                yield name, redact(value) if isinstance(value, str) else value


class DebianConfig(_Section):
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


class PypiConfig(_Section):
    """``[pypi]``: where Python package indexes (the simple repository API) are."""

    indexes: Urls | None = None
    """Base URLs, the preferred one first; by default those that pip uses."""


class NetworkConfig(_Section):
    """``[network]``: how to talk to servers."""

    timeout: Annotated[float, Field(gt=0, le=3600, strict=False)] = 30.0
    """Seconds to connect, and between two reads."""
    retries: Annotated[int, Field(ge=0, le=20)] = 4
    """How often to try again after the first attempt."""
    connections: Annotated[int, Field(ge=1, le=64)] = 8
    """How many are open at once."""


class Config(_Section):
    """The user's configuration.

    The methods answer from it, else from apt's or pip's.
    """

    debian: DebianConfig = DebianConfig()
    """Debian archives."""
    pypi: PypiConfig = PypiConfig()
    """Python package indexes."""
    network: NetworkConfig = NetworkConfig()
    """Connections."""

    def debian_mirrors(self) -> list[str]:
        """Base URLs of Debian archives, the preferred one first."""
        if self.debian.mirrors is not None:
            return list(self.debian.mirrors)
        from lockbuild.config.apt import archive_mirrors

        return archive_mirrors()

    def snapshot_service(self) -> str | None:
        """Where old states of the Debian archive are kept, if any place is known."""
        if self.debian.snapshot is not None:
            return self.debian.snapshot
        from lockbuild.config.apt import snapshot_service

        return snapshot_service()

    def debian_keyring(self) -> Path:
        """The OpenPGP keyring that signed Debian indexes are verified against."""
        if self.debian.keyring is not None:
            return Path(self.debian.keyring)
        from lockbuild.config.apt import keyring

        return keyring()

    def accepts_expired(self) -> bool:
        """Whether signed indexes past their Valid-Until are taken: the user's word, else the administrator's to apt."""
        if self.debian.allow_expired is not None:
            return self.debian.allow_expired
        from lockbuild.config import apt

        return apt.accepts_expired()

    def pypi_indexes(self) -> list[str]:
        """Base URLs of Python package indexes, the preferred one first."""
        if self.pypi.indexes is not None:
            return list(self.pypi.indexes)
        from lockbuild.config.pip import indexes

        return indexes()


def load(environ: Mapping[str, str], *, cwd: Path | None = None) -> Config:
    """Read the configuration that ``environ`` points to; the defaults where there is no file.

    UsageError where a file is named and not there; InvalidFileError with every problem in it. A relative
    ``keyring`` is relative to the file.
    """
    named = environ.get("LOCKBUILD_CONFIG")
    if named:
        path = (cwd or Path.cwd()) / Path(named).expanduser()
        if not path.is_file():
            raise UsageError("there is no such file", on=str(path), hint="correct or unset LOCKBUILD_CONFIG")
    else:
        path = _user_directory(environ) / "config.toml"
        if not path.is_file():
            return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", on=str(path)) from None
    config = validate(Config, parse_toml(text, str(path)), str(path))
    if config.debian.keyring is None:
        return config
    keyring = str(path.parent / Path(config.debian.keyring).expanduser())
    return config.model_copy(update={"debian": config.debian.model_copy(update={"keyring": keyring})})


def _user_directory(environ: Mapping[str, str]) -> Path:
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "lockbuild"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".config" / "lockbuild"
    from platformdirs import user_config_path

    return user_config_path("lockbuild")
