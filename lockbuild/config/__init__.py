"""Where bytes may come from: the user's configuration, never part of a lock.

``config.toml`` is what ``LOCKBUILD_CONFIG`` names, else the one in the user's configuration directory
(XDG base directory specification). What it leaves out comes from the machine's own apt, pip and npm
configuration, read only when somebody asks. Format: ``docs/formats.md``.
"""

from __future__ import annotations

from lockbuild.config.file import config_path, load
from lockbuild.config.hosts import HostConfig
from lockbuild.config.mirrors import Mirror
from lockbuild.config.settings import (
    CacheConfig,
    Config,
    DebianConfig,
    NetworkConfig,
    NpmConfig,
    PypiConfig,
    RegistriesConfig,
)

__all__ = [
    "CacheConfig",
    "Config",
    "DebianConfig",
    "HostConfig",
    "Mirror",
    "NetworkConfig",
    "NpmConfig",
    "PypiConfig",
    "RegistriesConfig",
    "config_path",
    "load",
]
