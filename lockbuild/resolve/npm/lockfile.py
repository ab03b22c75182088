"""Reads package-lock.json, versions 2 and 3: which packages it locks, and for which systems.

Format: npm's documentation, "package-lock.json", its key ``packages``; integrity: W3C Subresource Integrity.
The file is the project's, but not its author's only: it is checked as data that anybody may have written.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from lockbuild.config.urls import carries_secret, redact
from lockbuild.errors import InvalidFileError, Problem
from lockbuild.model.platform import Platform

_PART = r"[A-Za-z0-9~_-][A-Za-z0-9._~-]*"
_NAME = re.compile(rf"(?:@{_PART}/)?{_PART}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]*")
_CPUS = {"amd64": "x64", "arm64": "arm64"}
_LIBC = "glibc"
"""The C library of a Debian base, by the name that npm has for it."""


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One package: ``path`` is that of its tarball below the registry, ``url`` where it is kept elsewhere.

    ``sha512`` is in hexadecimal digits. ``key`` is its place in the file, for messages; ``systems`` says which
    systems it is for by ``os``, ``cpu`` and ``libc``, and ``optional`` whether the others go without.
    """

    key: str
    name: str
    version: str
    path: str | None
    url: str | None
    sha512: str
    optional: bool
    systems: Mapping[str, Sequence[str]]

    def unfit(self, platform: Platform) -> str | None:
        """What keeps it from ``platform``, for people; None where it runs there. Rules: npm-install-checks."""
        values = {"os": platform.os, "cpu": _CPUS[platform.architecture], "libc": _LIBC}
        for kind, wanted in self.systems.items():
            if not _admits(wanted, values[kind]):
                return f"{kind} {', '.join(wanted)}"
        return None


def read_packages(text: bytes, file: str) -> list[LockedPackage]:
    """The packages that a package-lock.json locks, by their keys. InvalidFileError naming everything that cannot be
    locked: an old format, packages from git, files and directories, packages without a SHA-512."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(file, [Problem("", f"not JSON: {error}")]) from None
    version = data.get("lockfileVersion") if isinstance(data, dict) else None
    if version not in (2, 3) or not isinstance(data.get("packages"), dict):
        raise InvalidFileError(
            file,
            [Problem("lockfileVersion", f"must be 2 or 3, not {version!r}")],
            hint="let npm 7 or later write it: `npm install --package-lock-only`",
        )
    packages: list[LockedPackage] = []
    problems: list[Problem] = []
    for key, entry in sorted(data["packages"].items()):
        name = key.rpartition("node_modules/")[2]
        if not isinstance(entry, dict):
            problems.append(Problem(_dotted(key), "must be an object"))
        elif "node_modules/" not in key or entry.get("inBundle") is True:
            continue  # the project and its workspaces; what is packed into another package
        else:
            found = _package(key, name, entry)
            (packages if isinstance(found, LockedPackage) else problems).append(found)  # type: ignore[arg-type]
    if problems:
        raise InvalidFileError(file, problems, hint=_hint(problems))
    return packages


def _package(key: str, place: str, entry: dict[str, Any]) -> LockedPackage | Problem:
    where = _dotted(key)
    name, version = entry.get("name", place), entry.get("version")
    resolved, integrity = entry.get("resolved"), entry.get("integrity")
    if entry.get("link") is True:
        return Problem(where, f"{place} is a link to the directory {resolved!r}; only packages can be locked")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return Problem(where, f"{name!r} is not the name of a package")
    if resolved is not None and not isinstance(resolved, str):
        return Problem(where, f"resolved of {name} must be a string")
    if resolved is not None and (origin := _other_origin(resolved)):
        return Problem(where, f"{name} comes from {origin} ({redact(resolved)}), not from a registry")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        return Problem(where, f"{version!r} is not the version of a package ({name})")
    if not isinstance(integrity, str) or not integrity.strip():
        return Problem(where, f"{name} {version} has no integrity")
    sha512 = _sha512(integrity)
    if sha512 is None:
        kinds = ", ".join(dict.fromkeys(word.partition("-")[0] for word in integrity.split()))
        return Problem(where, f"{name} {version} has no valid SHA-512 in its integrity (it has {kinds})")
    path = f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    standard = resolved is None or unquote(urlsplit(resolved).path).endswith(f"/{path}")
    if resolved is not None and not standard and carries_secret(resolved):
        return Problem(where, f"the URL of {name} holds a credential, which must not stand in a lock")
    return LockedPackage(
        key=key,
        name=name,
        version=version,
        path=path if standard else None,
        url=None if standard else resolved,
        sha512=sha512,
        optional=entry.get("optional") is True,
        systems={kind: _words(entry[kind]) for kind in ("os", "cpu", "libc") if entry.get(kind)},
    )


def _other_origin(resolved: str) -> str | None:
    """What kind of place that is no registry a package comes from; None where it is a URL of http or https."""
    try:
        scheme = urlsplit(resolved).scheme
    except ValueError:
        scheme = ""
    if scheme in ("http", "https"):
        return None
    if scheme.startswith("git"):
        return "a git repository"
    return {"file": "a file", "": "an unknown place"}.get(scheme, scheme)


def _sha512(integrity: str) -> str | None:
    """The SHA-512 among the hashes of an integrity, in hexadecimal digits."""
    for word in integrity.split():
        algorithm, _, value = word.partition("?")[0].partition("-")
        if algorithm == "sha512":
            try:
                digest = base64.b64decode(value, validate=True)
            except binascii.Error:
                continue
            if len(digest) == 64:
                return digest.hex()
    return None


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _admits(wanted: Sequence[str], value: str) -> bool:
    """Whether a list of systems, of which those with ``!`` are excluded, has ``value``."""
    if list(wanted) == ["any"]:
        return True
    excluded = [word[1:] for word in wanted if word.startswith("!")]
    return value not in excluded and (value in wanted or len(excluded) == len(wanted))


def _dotted(key: str) -> str:
    return f'packages."{key}"'


def _hint(problems: Sequence[Problem]) -> str | None:
    messages = " ".join(problem.message for problem in problems)
    if "SHA-512" in messages or "integrity" in messages:
        return "remove node_modules and the entries in question, then run `npm install --package-lock-only`"
    if "comes from" in messages or "is a link" in messages:
        return "depend on a version from a registry, or put the package into the project's own sources"
    return None
