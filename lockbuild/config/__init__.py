"""Where bytes may come from: the user's configuration, never part of a lock.

``config.toml`` is what ``LOCKBUILD_CONFIG`` names, else the one in the user's configuration directory
(XDG base directory specification). What it leaves out comes from the machine's own apt, pip and npm
configuration, read only when somebody asks. Format: ``docs/formats.md``.

Its values are pydantic's: they are imported when one is asked for, since most commands need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockbuild.config.file import config_path, load, mentions

if TYPE_CHECKING:
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
    "mentions",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lockbuild.config import settings

    return getattr(settings, name)
