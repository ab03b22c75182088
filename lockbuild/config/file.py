"""The configuration file: which one it is, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.errors import UsageError
from lockbuild.reading import read_regular, read_regular_text

if TYPE_CHECKING:
    from lockbuild.config.settings import Config


def config_path(environ: Mapping[str, str], *, cwd: Path | None = None) -> tuple[Path, bool]:
    """The file that ``environ`` points to, and whether ``LOCKBUILD_CONFIG`` names it; it need not be there."""
    named = environ.get("LOCKBUILD_CONFIG")
    if named:
        return (cwd or Path.cwd()) / Path(named).expanduser(), True
    return _user_directory(environ) / "config.toml", False


def load(environ: Mapping[str, str], *, cwd: Path | None = None) -> Config:
    """Read the configuration that ``environ`` points to; the defaults where there is no file.

    UsageError where a file is named and not there; InvalidFileError with every problem in it. Relative paths
    in it are relative to the file.
    """
    from lockbuild.config.settings import Config
    from lockbuild.model.read import parse_toml, validate

    path, named = config_path(environ, cwd=cwd)
    if not path.exists():
        if named:
            raise UsageError("there is no such file", on=str(path), hint="correct or unset LOCKBUILD_CONFIG")
        return Config()
    try:
        text = read_regular_text(path)
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", on=str(path)) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"it is not UTF-8 text (byte {error.start})", on=str(path)) from None
    config = validate(Config, parse_toml(text, str(path)), str(path))
    return _resolved(config, path.parent)


def mentions(environ: Mapping[str, str], table: str, *, cwd: Path | None = None) -> bool:
    """Whether the configuration can have a table of that name: a quick look, to spare reading it."""
    try:
        return table.encode() in read_regular(config_path(environ, cwd=cwd)[0])
    except OSError:
        return False  # whoever needs more of it says what is wrong


def _resolved(config: Config, directory: Path) -> Config:
    """``config`` with every path of a file absolute."""

    def absolute(name: str | None) -> str | None:
        return None if name is None else str(directory / Path(name).expanduser())

    changes: dict[str, Any] = {}
    if config.debian.keyring is not None:
        changes["debian"] = config.debian.model_copy(update={"keyring": absolute(config.debian.keyring)})
    if config.network.ca:
        authorities = [absolute(name) for name in config.network.ca]
        changes["network"] = config.network.model_copy(update={"ca": authorities})
    if config.hosts:
        changes["hosts"] = [
            host.model_copy(
                update={"client_cert": absolute(host.client_cert), "client_key": absolute(host.client_key)}
            )
            for host in config.hosts
        ]
    return config.model_copy(update=changes)


def _user_directory(environ: Mapping[str, str]) -> Path:
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "lockbuild"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".config" / "lockbuild"
    from platformdirs import user_config_path

    return user_config_path("lockbuild")
