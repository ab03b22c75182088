"""The registry that npm on this machine would use and its tokens, read from npm's own configuration.

Follows npm's documented order (npmrc(5)): ``npm_config_*`` variables, the user's npmrc, the global one. A
project's own npmrc is not asked: where a lock's bytes come from is no matter of the project. The files are read
here because starting npm takes half a second; where they name no registry, the one that the installed npm has built
in is taken from it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from lockbuild.errors import UsageError
from lockbuild.reading import read_regular_text

_HINT = 'write the registry into lockbuild\'s config.toml: [npm] registry = "https://…"'
_DEFINITIONS = (
    "node_modules/@npmcli/config/lib/definitions/definitions.js",
    "../@npmcli/config/lib/definitions/definitions.js",
    "lib/utils/config/definitions.js",
)
"""Where npm defines its options, relative to its package: of version 10, of Debian's, of version 7."""
_DEFAULT = re.compile(r"""\(\s*['"]registry['"]\s*,\s*\{\s*default:\s*['"`]([^'"`]+)['"`]""")
_SUFFIX = ":_authToken"
_VARIABLE = re.compile(r"(?<!\\)\$\{([^}]+)\}")


def registry(package: str, environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> str:
    """Base URL of the registry that has ``package`` (``name`` or ``@scope/name``), without a final slash.

    ``environ`` is by default the process's; the global file is looked for below ``root``. UsageError where
    nothing is configured and there is no npm to ask.
    """
    environ = os.environ if environ is None else environ
    settings = _settings(environ, root)
    scope = package.partition("/")[0] if package.startswith("@") else None
    url = (settings.get(f"{scope}:registry") if scope else None) or settings.get("registry")
    return (url or _built_in(environ.get("PATH", ""))).rstrip("/")


def tokens(
    configured: str | None = None, environ: Mapping[str, str] | None = None, *, root: Path = Path("/")
) -> Iterator[tuple[str, str]]:
    """URL prefix -> ``_authToken`` of the registry ``configured``, or else of those that npm is configured for.

    npm names a token by a URL without its scheme, ``//host/path/:_authToken``. Here it is for that part of a
    registry in use and its scheme, so that it goes nowhere without TLS unless the registry itself is so.
    A token that is the name of a variable which is not set is none.
    """
    settings = _settings(os.environ if environ is None else environ, root)
    urls = [value for name, value in settings.items() if name == "registry" or name.endswith(":registry")]
    places = {
        name.removesuffix(_SUFFIX).rstrip("/"): value
        for name, value in settings.items()
        if name.startswith("//") and name.endswith(_SUFFIX) and value and not _VARIABLE.search(value)
    }
    if places and configured is None and "registry" not in settings:
        with contextlib.suppress(UsageError):
            urls.append(registry("", environ, root=root))
    for url in [configured] if configured is not None else urls:
        scheme, _, rest = url.partition(":")
        for place in sorted(places, key=len, reverse=True):
            if f"{rest.rstrip('/')}/".startswith(f"{place}/"):
                yield f"{scheme}:{place}/", places[place]


def _settings(environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """Option name -> value, the strongest setting of each."""
    variables = {
        name.lower().removeprefix("npm_config_").replace("_", "-"): value
        for name, value in environ.items()
        if name.lower().startswith("npm_config_") and value
    }
    settings: dict[str, str] = {}
    for file in _files(environ, variables, root):
        try:
            text = read_regular_text(file)
        except (OSError, UnicodeDecodeError):
            continue  # npm passes over it as well
        settings.update(_parsed(text, environ))
    return {**settings, **variables}


def _files(environ: Mapping[str, str], variables: Mapping[str, str], root: Path) -> Iterator[Path]:
    """npm's configuration files, the weakest first."""
    home = Path(environ.get("HOME") or "~").expanduser()
    prefix = variables.get("prefix") or environ.get("PREFIX")
    for place in (Path("/usr/etc/npmrc"), Path("/usr/local/etc/npmrc"), Path("/etc/npmrc")):
        yield root / place.relative_to("/")
    if prefix:
        yield Path(prefix) / "etc" / "npmrc"
    if variables.get("globalconfig"):
        yield Path(variables["globalconfig"])
    yield Path(variables.get("userconfig") or home / ".npmrc").expanduser()


def _parsed(text: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of an npmrc (ini): lines ``key = value``, ``;`` and ``#`` begin comments, ``${NAME}`` a variable."""
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith((";", "#", "[")):
            continue
        value = value.strip()
        if value[:1] == value[-1:] and value[:1] in ("'", '"') and len(value) > 1:
            value = value[1:-1]
        yield name.strip(), _VARIABLE.sub(lambda match: environ.get(match[1], match[0]), value)


@cache
def _built_in(path: str) -> str:
    """The registry that the npm on ``path`` has built in: read from its files, else asked for in no project."""
    url = _in_files_of_npm(path) or _asked(path)
    if not re.match(r"https?://[^/\s]+\S*$", url):
        raise UsageError("no npm registry is configured, and there is no npm to ask", hint=_HINT)
    return url


def _in_files_of_npm(path: str) -> str:
    import shutil

    program = shutil.which("npm", path=path)
    if program is None:
        return ""
    package = Path(program).resolve().parent.parent
    settings = dict(_parsed(_text(package / "npmrc"), {}))  # what whoever built the package chose
    if settings.get("registry"):
        return settings["registry"]
    for place in _DEFINITIONS:
        found = _DEFAULT.search(_text(package / place))
        if found is not None:
            return found[1]
    return ""


def _asked(path: str) -> str:
    import subprocess

    try:
        done = subprocess.run(
            ["npm", "config", "get", "registry"],
            capture_output=True,
            check=False,
            cwd="/",
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            timeout=60,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _text(file: Path) -> str:
    try:
        return read_regular_text(file, "replace")
    except OSError:
        return ""
