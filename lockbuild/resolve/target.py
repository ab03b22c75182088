"""The Python and C library that an environment has, read from the packages of its base root.

Wheels are chosen for these and never for the interpreter that runs lockbuild. Platform tags follow
PEP 600 (manylinux_X_Y) and its predecessors' aliases; markers the dependency specifiers
specification of the Python Packaging Authority.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform

if TYPE_CHECKING:
    from packaging.tags import Tag

# The oldest glibc 2.x that PEP 600 tools use on a machine: the baselines of manylinux1 and manylinux2014.
_OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}
_LEGACY_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True, slots=True)
class TargetPython:
    """``version`` of CPython and of ``glibc``; None where the environment has none."""

    version: tuple[int, int, int] | None
    glibc: tuple[int, int] | None

    def describe(self, platform: Platform) -> str:
        """For people: ``CPython 3.14.7, glibc 2.41 on linux/amd64``."""
        python = "CPython " + ".".join(map(str, self.version)) if self.version else "no Python"
        glibc = "glibc " + ".".join(map(str, self.glibc)) if self.glibc else "no glibc"
        return f"{python}, {glibc} on {platform}"

    def platform_tags(self, platform: Platform) -> Iterator[str]:
        """Wheel platform tags that run here, best first."""
        machine = platform.machine
        if self.glibc and self.glibc[0] == 2:
            for minor in range(self.glibc[1], _OLDEST_GLIBC[machine] - 1, -1):
                yield f"manylinux_2_{minor}_{machine}"
                if minor in _LEGACY_NAMES:
                    yield f"{_LEGACY_NAMES[minor]}_{machine}"
        if self.glibc:
            yield f"linux_{machine}"

    def tags(self, platform: Platform) -> Iterator[Tag]:
        """Wheel tags that this Python accepts, best first. ``version`` must be known."""
        from packaging.tags import compatible_tags, cpython_tags

        assert self.version is not None
        short = self.version[:2]
        interpreter = f"cp{short[0]}{short[1]}"
        platforms = list(self.platform_tags(platform))
        yield from cpython_tags(short, abis=[interpreter], platforms=platforms)
        yield from compatible_tags(short, interpreter=interpreter, platforms=platforms)

    def markers(self, platform: Platform) -> dict[str, str]:
        """The marker environment, complete: nothing of the host's shows through. ``version`` must be known."""
        assert self.version is not None
        full = ".".join(map(str, self.version))
        return {
            "implementation_name": "cpython",
            "implementation_version": full,
            "os_name": "posix",
            "platform_machine": platform.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": full,
            "python_version": f"{self.version[0]}.{self.version[1]}",
            "sys_platform": "linux",
        }


def release_of(version: str | None, parts: int) -> str | None:
    """The numbers that a version (of Debian or upstream) begins with, at most so many; None where it has fewer than
    two."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version or "")
    return ".".join(match[1].split(".")[:parts]) if match else None


def target_of(
    sources: Iterable[Source], platform: Platform, trees: Iterable[LockedTree] = ()
) -> TargetPython:
    """The Python and glibc among the Debian packages that ``platform``'s trees are made of; where there are none,
    those that the base's pins say."""
    from packageurl import PackageURL

    version: tuple[int, int, int] | None = None
    glibc: tuple[int, int] | None = None
    for tree in trees:
        if tree.name == "base" and tree.platform == platform:
            python = _numbers(tree.pins.get("python"))
            version = (python[0], python[1], python[2] if len(python) > 2 else 0) if python else None
            library = _numbers(tree.pins.get("glibc"))
            glibc = (library[0], library[1]) if library else None
    for source in sources:
        if not source.purl.startswith(("pkg:deb/debian/python3@", "pkg:deb/debian/libc6@")):
            continue
        if not any(tree.startswith(f"{platform}:") for tree in source.trees):
            continue
        purl = PackageURL.from_string(source.purl)
        numbers = _numbers(purl.version)
        if numbers and purl.name == "python3":
            version = (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)
        elif numbers:
            glibc = (numbers[0], numbers[1])
    return TargetPython(version, glibc)


def _numbers(version: str | None) -> tuple[int, ...]:
    """The first three numbers of a version; () where it has fewer than two."""
    release = release_of(version, 3)
    return tuple(map(int, release.split("."))) if release else ()
