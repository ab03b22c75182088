"""Whether what a lock puts together can work together. Pure: from the manifest and what its requests are locked to.

What cannot work is refused, what may disappoint is told with its remedy. Each check is about one thing that people
ran into, and speaks of it in their words. Others are elsewhere, where they are found out: ports that an Emscripten
does not have or cannot use, wheels for another Python, two tools at one mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lockbuild.model.lock import Source
from lockbuild.model.manifest import Manifest
from lockbuild.resolve.context import Resolution

_OLDEST_CMAKE_POLICY = (3, 5)
"""What CMake 4 still accepts; its release notes, "Deprecated and Removed Features" of 4.0."""
_MINIMUM = re.compile(
    r"^\s*cmake_minimum_required\s*\(\s*VERSION\s+(\d+(?:\.\d+)*)(?:\.\.\.(\d+(?:\.\d+)*))?", re.I | re.M
)
_FIXED_SDK = (6, 0, 3)
"""The first SDK release after the fix of LLVM issue 204883 was merged (pull request 205184, late June 2026)."""
_FIXED_CLANG = 23
_WASM_EXCEPTIONS = "-fwasm-exceptions"
_DAWN = re.compile(r"(?:dawn\.googlesource\.com/dawn|github\.com/google/dawn)(?:\.git)?(?=$|[/@+#?])")
_DAWN_ARCHIVE = re.compile(r"/(?:archive|\+archive|zip|tar\.gz)/(?:refs/\w+/)?([0-9a-f]{40})\b")
_ONNX_RUNTIME = re.compile(r"github\.com/microsoft/onnxruntime(?:\.git)?(?=$|[/@+#?])")
_SDK_ARCHIVE = re.compile(r"/(linux|mac|win)/[0-9a-f]{40}/wasm-binaries(-arm64)?\.(?:tar\.xz|tbz2|zip)$")


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong at ``key`` of the manifest, and what helps. ``refused`` where it cannot work at all."""

    key: str
    message: str
    hint: str
    refused: bool


def findings(
    manifest: Manifest, resolved: Mapping[str, Resolution], listings: Mapping[str, str]
) -> Iterator[Finding]:
    """Everything that does not fit together.

    ``resolved`` has what each request is locked to, by its key; ``listings`` the text of the top CMakeLists.txt by
    target, of those that have one.
    """
    yield from _architectures(resolved)
    yield from _two_dawns(resolved)
    yield from _old_cmake_projects(manifest, resolved, listings)
    yield from _varying_compiler(manifest, resolved, listings)


# An SDK archive whose architecture is not the platform's


def _architectures(resolved: Mapping[str, Resolution]) -> Iterator[Finding]:
    platforms = sorted({tree.platform for tree in resolved["base"].trees if tree.platform != "any"})
    for key, resolution in resolved.items():
        trees = {tree.id: tree for tree in resolution.trees}
        for source in resolution.sources:
            match = _SDK_ARCHIVE.search(source.url or "")
            if match is None:
                continue
            made_for = f"{match[1]}/{'arm64' if match[2] else 'amd64'}"
            used_on = {
                str(platform)
                for name in source.trees
                for platform in (platforms if trees[name].platform == "any" else [trees[name].platform])
            }
            if wrong := sorted(used_on - {made_for}):
                yield Finding(
                    key,
                    f"its archive is the SDK for {made_for}, and the lock is for {', '.join(wrong)}, too: {source.url}"
                    if made_for in used_on
                    else f"its archive is the SDK for {made_for}, not for {', '.join(wrong)}: {source.url}",
                    'use from = "emsdk", which takes the archive of each platform',
                    refused=True,
                )


# The bindings' halves from different commits of Dawn


def _two_dawns(resolved: Mapping[str, Resolution]) -> Iterator[Finding]:
    ports = {
        key: tree.pins["dawn"]
        for key, resolution in resolved.items()
        for tree in resolution.trees
        if tree.unpack == "port" and "dawn" in tree.pins
    }
    for port, behind in ports.items():
        for key, source, commit in _dawns(resolved):
            if commit != behind:
                where = f" (at {source.at})" if source.at else ""
                yield Finding(
                    key,
                    f"it has Dawn {commit[:12]}{where}, and {port} is of Dawn {behind[:12]}: of two commits the "
                    "JavaScript and the C++ half of the bindings do not fit together",
                    f'use from = "dawn" with of = "{port.partition(".")[2]}", which follows the port, or leave one out',
                    refused=True,
                )
        for key, resolution in resolved.items():
            if any(_ONNX_RUNTIME.search(source.url or "") for source in resolution.sources):
                yield Finding(
                    key,
                    f"ONNX Runtime makes the WebGPU bindings from a patched Dawn of its own, and {port} is there, too",
                    "link one of them only: with --js-library those of ONNX Runtime, or a build of it without "
                    "WebGPU and the port",
                    refused=False,
                )


def _dawns(resolved: Mapping[str, Resolution]) -> Iterator[tuple[str, Source, str]]:
    for key, resolution in resolved.items():
        for source in resolution.sources:
            if not _DAWN.search(source.url or ""):
                continue
            archive = _DAWN_ARCHIVE.search(source.url or "")
            commit = source.commit or (archive[1] if archive else None)
            if commit is not None:
                yield key, source, commit


# CMake 4 for projects that ask for less than 3.5


def _old_cmake_projects(
    manifest: Manifest, resolved: Mapping[str, Resolution], listings: Mapping[str, str]
) -> Iterator[Finding]:
    there = _cmake(resolved)
    if there is None or _numbers(there[1])[0] < 4:
        return
    key, version = there
    remedy = "CMAKE_POLICY_VERSION_MINIMUM"
    for name, text in listings.items():
        target = manifest.project.targets[name]
        steps = [*target.steps, *target.env]
        minimum = _MINIMUM.search(text)
        if minimum is None or not any("cmake" in step for step in target.steps):
            continue
        asked = minimum[2] or minimum[1]
        if _numbers(asked)[:2] < _OLDEST_CMAKE_POLICY and not any(remedy in step for step in steps):
            yield Finding(
                f"targets.{name}",
                f"its CMakeLists.txt asks for CMake {asked}, and CMake {version} ({key}) has nothing from before 3.5",
                f"add -D{remedy}=3.5 to the step that configures it, or use cmake<4",
                refused=False,
            )


def _cmake(resolved: Mapping[str, Resolution]) -> tuple[str, str] | None:
    """Whose CMake comes first on PATH, and its version: tools come before the base."""
    found = _versions(resolved, r"pkg:(?:pypi|deb/debian)/cmake@(?:\d+(?::|%3[Aa]))?(\d+(?:\.\d+)*)")
    tools = [item for item in found if item[0] != "base"]
    return next(iter([*tools, *found]), None)


# A compiler that may give other bytes from run to run


def _varying_compiler(
    manifest: Manifest, resolved: Mapping[str, Resolution], listings: Mapping[str, str]
) -> Iterator[Finding]:
    compiler = _varying(resolved)
    if compiler is None:
        return
    used: dict[str, Iterable[str]] = {
        **{
            f"targets.{name}": [*target.steps, *target.env.values(), listings.get(name, "")]
            for name, target in manifest.project.targets.items()
        },
        **{
            f"derive.{name}": [*derive.all_steps, *derive.env.values()]
            for name, derive in manifest.toolchain.derive.items()
        },
    }
    for key, texts in used.items():
        if any(_WASM_EXCEPTIONS in text for text in texts):
            yield Finding(
                key,
                f"it uses {_WASM_EXCEPTIONS}, and with that {compiler} may give other bytes from run to run (LLVM "
                "issue 204883)",
                "build with --backend bubblewrap, which switches address randomisation off, and try "
                f"`lockbuild reproduce --twice`; Emscripten {'.'.join(map(str, _FIXED_SDK))} and clang "
                f"{_FIXED_CLANG} have the fix",
                refused=False,
            )


def _varying(resolved: Mapping[str, Resolution]) -> str | None:
    """The compiler that the builds use, where it is one without the fix."""
    for resolution in resolved.values():
        for tree in resolution.trees:
            if tree.unpack == "emsdk" and "emscripten" in tree.pins:
                version = tree.pins["emscripten"]
                return f"Emscripten {version}" if _numbers(version) < _FIXED_SDK else None
    # Debian's Emscripten uses Debian's clang, whatever its own version.
    clangs = _versions(resolved, r"pkg:deb/debian/clang-\d+@(?:\d+(?::|%3[Aa]))?(\d+(?:\.\d+)*)")
    old = sorted({version for _, version in clangs if _numbers(version)[0] < _FIXED_CLANG})
    return f"clang {old[-1]}" if old and _versions(resolved, r"pkg:deb/debian/emscripten@()") else None


def _versions(resolved: Mapping[str, Resolution], pattern: str) -> list[tuple[str, str]]:
    """The keys and versions of packages whose package URL begins as ``pattern`` does."""
    return [
        (key, match[1])
        for key, resolution in resolved.items()
        for source in resolution.sources
        if (match := re.match(pattern, source.purl))
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
