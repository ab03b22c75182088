"""CMakePresets.json (cmake-presets(7)) for an environment: its generator, toolchain file and variables."""

from __future__ import annotations

import json
from typing import Any

from lockbuild.errors import UsageError
from lockbuild.export.subject import Subject

_VERSION = 6
"""Of the format: CMake 3.25 and newer."""
_BUILD_TYPES = ("Release", "Debug")


def render(subject: Subject) -> str:
    """A hidden preset ``lockbuild``, and one for each build type. Paths are those in the environment, so the presets
    are for use there (``lockbuild run``, a container). UsageError where it has no CMake."""
    if subject.cmake is None:
        raise UsageError(
            "the environment has no CMake", on=subject.name, hint="add one to the toolchain: [tools.cmake]"
        )
    base: dict[str, Any] = {
        "name": "lockbuild",
        "hidden": True,
        "description": f"The environment {subject.name}, image {subject.image.identity}",
        "generator": "Ninja" if subject.cmake.ninja else "Unix Makefiles",
        "binaryDir": "${sourceDir}/build/${presetName}",
    }
    if subject.cmake.toolchain_file is not None:
        base["toolchainFile"] = subject.cmake.toolchain_file
    base["cacheVariables"] = {
        "CMAKE_EXPORT_COMPILE_COMMANDS": {"type": "BOOL", "value": "ON"},
        **(
            {"CMAKE_MAKE_PROGRAM": {"type": "FILEPATH", "value": subject.cmake.ninja}}
            if subject.cmake.ninja
            else {}
        ),
    }
    # Where the source and the build directory are, presets say themselves.
    kept = {name: value for name, value in subject.added.items() if name not in ("SOURCE", "BUILD")}
    base["environment"] = {
        name: _literal(value) for name, value in sorted({**subject.variables, **kept}.items())
    }
    names = {kind: f"lockbuild-{kind.lower()}" for kind in _BUILD_TYPES}
    value: dict[str, Any] = {
        "version": _VERSION,
        "cmakeMinimumRequired": {"major": 3, "minor": 25, "patch": 0},
        "configurePresets": [
            base,
            *(
                {
                    "name": name,
                    "inherits": "lockbuild",
                    "displayName": f"{kind} in {subject.name}",
                    "cacheVariables": {"CMAKE_BUILD_TYPE": {"type": "STRING", "value": kind}},
                }
                for kind, name in names.items()
            ),
        ],
        "buildPresets": [{"name": name, "configurePreset": name} for name in names.values()],
        "vendor": {"lockbuild": {"madeBy": "lockbuild export cmake-presets"}},
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _literal(value: str) -> str:
    """``$`` begins a macro where a brace follows; there is a macro for itself."""
    return value.replace("$", "${dollar}")
