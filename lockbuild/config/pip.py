"""The package indexes that pip on this machine would use, read from pip's own configuration.

Follows pip's documented order ("Configuration" in pip's user guide): the system's files, the user's,
the virtual environment's, the file that ``PIP_CONFIG_FILE`` names, then ``PIP_*`` variables; in a file
``[install]`` goes before ``[global]``. The files are read here because ``pip config list`` takes half a
second. Where nothing is configured, the index that the installed pip has built in is taken from it.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lockbuild.errors import UsageError
from lockbuild.reading import read_regular_text

_HINT = 'write the index into lockbuild\'s config.toml: [pypi] indexes = ["https://…/simple"]'


def indexes(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> list[str]:
    """Base URLs of pip's index and extra indexes, in pip's order.

    ``environ`` is by default the process's; system files are looked for below ``root``. UsageError where
    pip is configured to use no index, a file cannot be parsed, or there is neither a setting nor a pip.
    """
    environ = os.environ if environ is None else environ
    settings = _settings(environ, root)
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t"):
        raise UsageError("pip is configured to use no index (no-index)", on="pip's configuration", hint=_HINT)
    main = settings.get("index-url") or settings.get("pypi-url") or _built_in_index()
    urls = [main, *settings.get("extra-index-url", "").split()]
    return list(dict.fromkeys(url.rstrip("/") for url in urls))


def _settings(environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """Option name -> value, the strongest setting of each. pip ignores empty values."""
    in_global: dict[str, str] = {}
    in_install: dict[str, str] = {}
    for file in _files(environ, root):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(read_regular_text(file), source=str(file))
        except OSError:
            continue  # absent or not for this user: pip passes over it as well
        except (configparser.Error, UnicodeDecodeError) as error:
            raise UsageError(f"is not a pip configuration: {error}", on=str(file), hint=_HINT) from None
        for section, settings in (("global", in_global), ("install", in_install)):
            if parser.has_section(section):
                settings.update({_option(key): value for key, value in parser.items(section)})
    in_environ = {
        _option(key[4:]): value
        for key, value in environ.items()
        if key.startswith("PIP_") and key != "PIP_CONFIG_FILE"
    }
    settings = {}
    for layer in (in_global, in_install, in_environ):
        settings.update({key: value for key, value in layer.items() if value})
    return settings


def _option(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def _files(environ: Mapping[str, str], root: Path) -> Iterator[Path]:
    """pip's configuration files, the weakest first."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    for directory in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield root / directory.lstrip("/") / "pip" / "pip.conf"
    yield root / "etc" / "pip.conf"
    if not (named and Path(named).exists()):
        home = Path(environ.get("HOME") or "~").expanduser()
        yield home / ".pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(environ.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _built_in_index() -> str:
    """The index of the pip beside lockbuild, else of the one that Python carries in ensurepip."""
    import importlib

    try:
        module = importlib.import_module("pip._internal.models.index")
        return str(module.PyPI.simple_url)
    except (ImportError, AttributeError):
        pass
    try:
        return _bundled_index()
    except (ImportError, AttributeError, OSError):
        raise UsageError("no package index is configured, and there is no pip to ask", hint=_HINT) from None


def _bundled_index() -> str:
    """Environments made by other tools have no pip; the interpreter mostly brings pip's wheel along."""
    import ensurepip
    import importlib.util
    import zipimport

    for wheel in sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"), reverse=True):
        spec = zipimport.zipimporter(f"{wheel}/pip/_internal/models").find_spec("index")
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return str(module.PyPI.simple_url)
    raise ImportError("no wheel of pip in ensurepip")
