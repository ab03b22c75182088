"""Hints for failed steps, from what the tools really print."""

from __future__ import annotations

import pytest

from lockbuild.build.diagnose import diagnose


@pytest.mark.parametrize(
    ("output", "status", "told"),
    [
        (
            'Exception: FROZEN_CACHE is set, but cache file is missing: "sysroot/lib/wasm32-emscripten/crtbegin-mt.o" '
            '(in cache root path "/opt/emscripten-cache")\n',
            1,
            "no 'crtbegin-mt.o'",
        ),
        ("curl: (6) Could not resolve host: example.test\n", 6, "builds have no network"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution\n", 1, "builds have no network"),
        ("wget: bad address 'example.test'\n", 1, "builds have no network"),
        ("/bin/sh: 1: meson: not found\n", 127, "'meson' is not in the environment"),
        ("bash: line 1: autoconf: command not found\n", 127, "'autoconf' is not in the environment"),
        ("touch: cannot touch '/build/source/x': Read-only file system\n", 1, "'/build/source/x'"),
        ("head: standard output: No space left on device\n", 1, "name another --store"),
        ("", 137, "memory ran out"),
        ("OSError: [Errno 30] Read-only file system: '/build/source/x'\n", 1, "/build/source/x is an input"),
    ],
)
def test_a_known_phrase_gives_its_hint(output: str, status: int, told: str) -> None:
    assert told in (diagnose("lines before\n" + output + "lines after\n", status) or "")


@pytest.mark.parametrize(
    ("output", "status"),
    [("error: expected ';' after expression\n", 1), ("file not found: x.h", 1), ("", 139)],
)
def test_anything_else_gives_none(output: str, status: int) -> None:
    assert diagnose(output, status) is None
