"""Which wheel of a project runs in an environment, and a clear sentence where none does.

Binary distribution format and platform compatibility tags specifications of the Python Packaging
Authority; yanked files as PEP 592 says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lockbuild.config.urls import redact
from lockbuild.errors import LockbuildError, ResolveError
from lockbuild.model.platform import Platform
from lockbuild.resolve.target import TargetPython
from lockbuild.transport.failures import ABSENT, ABSENT_HINT, OfflineError
from lockbuild.transport.index import IndexFile, PackageIndexes

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_SHOWN = 5
"""Versions or tags at most in a message."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """The best wheel of one version for an environment."""

    version: Version
    file: IndexFile = field(compare=False)


class WheelFinder:
    """Chooses among the files of ``indexes`` for one environment. Thread-safe.

    ``preferred`` has versions by project that come before newer ones, ``not_after`` excludes what was uploaded later.
    ``readable`` is whether a wheel's metadata can be had: what cannot be asked for its needs is not chosen, and stands
    in ``passed_over``, by project.
    """

    def __init__(
        self,
        indexes: PackageIndexes,
        target: TargetPython,
        platform: Platform,
        *,
        preferred: Mapping[str, str] | None = None,
        not_after: datetime | None = None,
        readable: Callable[[IndexFile], bool] = lambda file: True,
    ) -> None:
        self.passed_over: dict[str, set[Version]] = {}
        self._readable = readable
        self._preferred = preferred or {}
        self._not_after = not_after
        self._indexes = indexes
        self._target = target
        self._platform = platform
        self._rank = {tag: rank for rank, tag in enumerate(target.tags(platform))}
        self._wheels: dict[str, tuple[Wheel, ...]] = {}

    def prefetch(self, name: str) -> None:
        """Read and sort the project's files ahead of need."""
        self._all(name)

    def matching(self, name: str, specifiers: SpecifierSet) -> tuple[Wheel, ...]:
        """The wheels of project ``name`` that run here and whose versions ``specifiers`` admit: the preferred version,
        then the newest first.

        Pre-releases only where a specifier names one; yanked and young ones only where a specifier pins them.
        """
        found = self._admitted(name, specifiers)
        readable = [wheel for wheel in found if self._readable(wheel.file)]
        unreadable = {wheel.version for wheel in found} - {wheel.version for wheel in readable}
        if unreadable:
            self.passed_over.setdefault(name, set()).update(unreadable)
        preferred = self._preferred.get(name)
        return tuple(sorted(readable, key=lambda wheel: str(wheel.version) != preferred))

    def _admitted(self, name: str, specifiers: SpecifierSet) -> list[Wheel]:
        pinned = is_pinned(specifiers)
        asked = bool(specifiers.prereleases)
        return [
            wheel
            for wheel in self._all(name)
            if (pinned or not (wheel.file.yanked or self._young(wheel.file)))
            and specifiers.contains(wheel.version, prereleases=asked)
        ]

    def _young(self, file: IndexFile) -> bool:
        return self._not_after is not None and file.uploaded is not None and file.uploaded > self._not_after

    def _all(self, name: str) -> tuple[Wheel, ...]:
        wheels = self._wheels.get(name)
        if wheels is None:
            wheels = self._wheels[name] = self._choose(self._indexes.project(name) or ())
        return wheels

    def _choose(self, files: Iterable[IndexFile]) -> tuple[Wheel, ...]:
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename
        from packaging.version import InvalidVersion

        best: dict[Version, tuple[tuple[object, ...], IndexFile]] = {}
        for file in files:
            if not file.wheel or not self._python_fits(file):
                continue
            try:
                _, version, build, tags = parse_wheel_filename(file.name)
            except (InvalidWheelFilename, InvalidVersion):
                continue
            ranks = [self._rank[tag] for tag in tags if tag in self._rank]
            if not ranks:
                continue
            # The smallest is best: not yanked, nearest tag, highest build number; the name decides a tie.
            order = (file.yanked, min(ranks), [-build[0]] if build else [0], build[1:], file.name)
            if version not in best or order < best[version][0]:
                best[version] = (order, file)
        return tuple(Wheel(version, best[version][1]) for version in sorted(best, reverse=True))

    def _python_fits(self, file: IndexFile) -> bool:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        if not file.requires_python:
            return True
        assert self._target.version is not None
        try:
            wanted = SpecifierSet(file.requires_python)
        except InvalidSpecifier:
            return True  # as pip does: what cannot be read does not exclude
        return wanted.contains(".".join(map(str, self._target.version)), prereleases=True)

    def nothing_matches(self, name: str, specifiers: SpecifierSet, wanted: str) -> LockbuildError:
        """Why `matching` is empty: ``wanted`` says for people what was asked for.

        OfflineError where only the network is missing, else ResolveError.
        """
        from packaging.version import InvalidVersion, Version

        unreadable = self.unreadable(name, specifiers, wanted)
        if unreadable is not None:
            return unreadable
        files = self._indexes.project(name)
        if files is None:
            where = ", ".join(redact(url) for url in self._indexes.urls)
            return ResolveError(f"no index has the project {name!r} (asked: {where})", on=wanted)
        by_version: dict[Version, list[IndexFile]] = {}
        for file in files:
            try:
                by_version.setdefault(Version(file.version or ""), []).append(file)
            except InvalidVersion:
                continue
        newest = sorted(by_version, reverse=True)
        met = [version for version in newest if specifiers.contains(version, prereleases=True)]
        if not met:
            final = [version for version in newest if not version.is_prerelease] or newest
            there = f"the newest are {_some(final)}" if final else "there are none at all"
            return ResolveError(f"no version of {name} meets {str(specifiers) or 'that'}; {there}", on=wanted)
        usable = [version for version in met if specifiers.prereleases or not version.is_prerelease]
        if not usable:
            return ResolveError(
                f"only pre-releases of {name} meet {str(specifiers) or 'that'}: {_some(met)}",
                on=wanted,
                hint="name a pre-release in the requirement to allow them",
            )
        kept = [version for version in usable if not all(file.yanked for file in by_version[version])]
        if not kept and not is_pinned(specifiers):
            return ResolveError(
                f"every version of {name} that meets {specifiers} was withdrawn (yanked): {_some(usable)}",
                on=wanted,
                hint="pin one with == if it must be used",
            )
        old = [version for version in kept if not all(map(self._young, by_version[version]))]
        if kept and not old and not is_pinned(specifiers):
            assert self._not_after is not None
            return ResolveError(
                f"every version of {name} that meets {str(specifiers) or 'that'} was uploaded after "
                f"{self._not_after:%Y-%m-%d %H:%M} UTC: {_some(kept)}",
                on=wanted,
                hint="ask for a smaller minimum age, or pin one with ==",
            )
        version = (old or kept or usable)[0]
        return ResolveError(self._no_wheel(name, version, by_version[version]), on=wanted)

    def unreadable(self, name: str, specifiers: SpecifierSet, wanted: str) -> OfflineError | None:
        """Why `matching` is empty, where it is since no metadata can be read of what would match."""
        wheels = self._admitted(name, specifiers)
        if not wheels:
            return None
        versions = _some([wheel.version for wheel in wheels])
        there = [wheel.version for wheel in self._all(name) if self._readable(wheel.file)]
        instead = f"; it is there of {_some(there)}" if there else ""
        return OfflineError(
            f"the metadata of {name} {versions} {ABSENT}{instead}", on=wanted, hint=ABSENT_HINT
        )

    def _no_wheel(self, name: str, version: Version, files: list[IndexFile]) -> str:
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename
        from packaging.version import InvalidVersion

        here = self._target.describe(self._platform)
        tags: list[str] = []
        for file in files:
            try:
                tags.extend(str(tag) for tag in parse_wheel_filename(file.name)[3])
            except (InvalidWheelFilename, InvalidVersion):
                continue
        if not tags:
            return f"{name} {version} has no wheels, only its source, which would have to be built"
        unfit = sorted(
            {file.requires_python or "" for file in files if file.wheel and not self._python_fits(file)}
        )
        if unfit:
            return f"{name} {version} needs Python {' or '.join(unfit)}; the environment has {here}"
        linux = [tag for tag in tags if "linux" in tag]
        near = [tag for tag in linux if tag.endswith(self._platform.machine)] or linux or tags
        return (
            f"no wheel of {name} {version} runs in the environment, which has {here};"
            f" there are wheels for {_some(sorted(set(near), reverse=True))}"
        )


def is_pinned(specifiers: SpecifierSet) -> bool:
    """Whether one exact version is asked for (``==`` without a wildcard, or ``===``)."""
    return any(
        item.operator == "===" or (item.operator == "==" and not item.version.endswith(".*"))
        for item in specifiers
    )


def _some(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
