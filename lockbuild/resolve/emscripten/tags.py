"""Which releases of Emscripten there are: ``emscripten-releases-tags.json`` of the emsdk repository.

The file has aliases (of releases, or of other aliases) and, by version, the commit that a release's archives are
named with. Some commits in the real file are cut short; what cannot be found out is refused when it is asked for.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockbuild.errors import ResolveError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

PATH = "emscripten-releases-tags.json"
LIMIT = 4 << 20
"""Bytes; the real file has 40 thousand."""
_FULL = re.compile(r"[0-9a-f]{40}")
_HEX = re.compile(r"[0-9a-f]{1,40}")
_PLAIN = re.compile(r"\d+(?:\.\d+)*")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Release:
    """A release: its ``version`` as the file names it, and the ``commit`` (maybe cut short) of its archives."""

    version: str
    commit: str

    @property
    def emscripten(self) -> str:
        """The version of Emscripten in it: that of an ``-asserts`` build is the one without."""
        return self.version.partition("-")[0]

    @property
    def complete(self) -> bool:
        """Whether the commit is whole."""
        return _FULL.fullmatch(self.commit) is not None


@dataclass(frozen=True, slots=True)
class Releases:
    """The whole file; ``origin`` is what messages call it."""

    aliases: Mapping[str, str]
    releases: Mapping[str, str]
    origin: str

    def select(self, wanted: str) -> Release:
        """The release that an exact version, an alias or a range (its newest) names.

        ResolveError, saying what there is, where there is none.
        """
        wanted = wanted.strip()
        version = self._follow(wanted)
        commit = self.releases.get(version)
        if commit is not None:
            return Release(version, commit)
        specifiers = _range(wanted)
        if specifiers is not None:
            return self._newest(wanted, specifiers)
        raise ResolveError(
            f"Emscripten has no release {wanted!r}",
            on=self.origin,
            hint=f"{self._near(wanted)}; newest are {_listed(self.newest())}",
        )

    def newest(self, specifiers: SpecifierSet | None = None) -> list[str]:
        """Plain releases (no ``-asserts``, no ``-lto``) that fit, the newest first."""
        from packaging.version import Version

        plain = [version for version in self.releases if _PLAIN.fullmatch(version)]
        fitting = [version for version in plain if specifiers is None or specifiers.contains(version)]
        return sorted(fitting, key=Version, reverse=True)

    def below(self, version: str, wanted: str) -> list[str]:
        """Plain releases older than the plain ``version`` that the range (or any, for an alias) has, newest first."""
        from packaging.version import Version

        if not _PLAIN.fullmatch(version):
            return []
        return [other for other in self.newest(_range(wanted)) if Version(other) < Version(version)]

    def complete_asserts(self) -> list[str]:
        """The ``-asserts`` builds whose commit is whole, the newest first."""
        from packaging.version import Version

        found = [
            version
            for version, commit in self.releases.items()
            if version.endswith("-asserts")
            and _PLAIN.fullmatch(version.removesuffix("-asserts"))
            and _FULL.fullmatch(commit)
        ]
        return sorted(found, key=lambda version: Version(version.removesuffix("-asserts")), reverse=True)

    def _follow(self, name: str) -> str:
        seen = [name]
        while (target := self.aliases.get(seen[-1])) is not None:
            if target in seen:
                raise ResolveError(
                    f"the alias {name!r} leads back to itself: {' -> '.join([*seen, target])}",
                    on=self.origin,
                    hint="ask for a version",
                )
            seen.append(target)
        if len(seen) > 1 and seen[-1] not in self.releases:
            raise ResolveError(
                f"the alias {name!r} leads to {seen[-1]!r}, which is no release",
                on=self.origin,
                hint="ask for a version",
            )
        return seen[-1]

    def _newest(self, wanted: str, specifiers: SpecifierSet) -> Release:
        found = self.newest(specifiers)
        if not found:
            every = self.newest()
            there = f"from {every[-1]} to {every[0]}" if every else "none at all"
            raise ResolveError(
                f"no release of Emscripten fits {wanted!r}",
                on=self.origin,
                hint=f"there are {len(every)} releases, {there}; newest are {_listed(every)}",
            )
        return Release(found[0], self.releases[found[0]])

    def _near(self, wanted: str) -> str:
        near = difflib.get_close_matches(wanted, [*self.aliases, *self.releases], n=_SHOWN, cutoff=0.7)
        return f"there is {_listed(near)}" if near else "nothing has a name like that"


def parse(data: bytes, origin: str) -> Releases:
    """Read the file; ResolveError where it is too large or not such a file."""
    if len(data) > LIMIT:
        raise ResolveError(f"is larger than {LIMIT} bytes", on=origin, hint="look at what the mirror serves")
    try:
        value = json.loads(data, object_pairs_hook=_unique)
        aliases, releases = _strings(value, "aliases"), _strings(value, "releases")
    except (ValueError, RecursionError) as error:
        raise ResolveError(f"is not the list of Emscripten's releases: {error}", on=origin) from None
    for version, commit in releases.items():
        if not _HEX.fullmatch(commit):
            raise ResolveError(f"the release {version} has {commit!r} for a commit", on=origin)
    return Releases(aliases, releases, origin)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is there twice")
        found[key] = value
    return found


def _strings(value: Any, key: str) -> dict[str, str]:
    table = value.get(key) if isinstance(value, dict) else None
    if not isinstance(table, dict) or not all(isinstance(item, str) for item in table.values()):
        raise ValueError(f"it has no table {key!r} of strings")
    return table


def _range(wanted: str) -> SpecifierSet | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(wanted) if any(sign in wanted for sign in "<>=!~") else None
    except InvalidSpecifier:
        return None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) or "none"
