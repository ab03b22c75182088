"""Path-prefix maps: no path of the sandbox may reach an output.

clang's ``-ffile-prefix-map`` is the one option that covers ``__FILE__``, DWARF and coverage alike. It is
injected through ``EMCC_CFLAGS``, which emcc adds to every compilation, also where a project's own build
system ignores ``CFLAGS``. The maps cover the target's source and build directories, further sources, every
mounted tool, and /usr, where an SDK in the base has its headers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from lockbuild.model.environment import BUILD_DIR, SOURCE_DIR, Environment


def prefix_maps(environment: Environment, inputs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path in the sandbox, what outputs show instead), for ``environment`` and the mounts of further inputs.

    /build/X and /opt/X become X, /usr becomes usr: relative, short, and the same everywhere.
    """
    paths = {SOURCE_DIR, BUILD_DIR, "/usr", *inputs, *(tree.mount for tree in environment.trees)} - {"/"}
    return tuple((path, _shown(path)) for path in sorted(paths))


def _shown(path: str) -> str:
    for root in ("/build/", "/opt/"):
        if path.startswith(root):
            return path.removeprefix(root)
    return path.removeprefix("/")


def compiler_flags(maps: Iterable[tuple[str, str]]) -> str:
    """The maps as one shell-quoted string of clang options."""
    return shlex.join(f"-ffile-prefix-map={path}={shown}" for path, shown in maps)
