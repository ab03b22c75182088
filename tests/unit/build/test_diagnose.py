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


FROZEN = """\
  File "/usr/share/emscripten/tools/system_libs.py", line 440, in build
    return cache.get(self.get_path(), self.do_build, force=USE_NINJA == 2, quiet=USE_NINJA)
           ~~~~~~~~~^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/share/emscripten/tools/cache.py", line 167, in get
    raise Exception(f'FROZEN_CACHE is set, but cache file is missing: "{shortname}" (in cache root path "{cachedir}")')
Exception: FROZEN_CACHE is set, but cache file is missing: "sysroot/lib/wasm32-emscripten/crtbegin-mt.o" \
(in cache root path "/opt/emscripten-cache")
"""
"""What em++ -pthread of Debian's Emscripten 6.0.5 prints."""


@pytest.mark.parametrize(
    ("step", "linked"),
    [
        ("em++ -O2 -pthread $SOURCE/t.cpp -I. -s USE_ZLIB=1 -o t.js", "-O2 -pthread -sUSE_ZLIB=1"),
        (
            "emcc -c -O3 a.c; /usr/bin/emcc -sSTRICT -fwasm-exceptions a.o -o a.js | cat",
            "-sSTRICT -fwasm-exceptions",
        ),
        ("cmake --build $BUILD", "-pthread"),
    ],
)
def test_a_variant_that_a_frozen_cache_lacks_is_named_with_how_to_add_it(step: str, linked: str) -> None:
    hint = diagnose(FROZEN, 1, step=step)
    assert hint is not None
    assert "has no 'crtbegin-mt.o'" in hint
    assert f'extra-steps = ["em++ {linked} p.cpp -o p.js"]' in hint


def test_of_a_library_with_no_known_flags_the_targets_are_meant() -> None:
    hint = diagnose(FROZEN.replace("crtbegin-mt.o", "libembind.a"), 1, step="cmake --build $BUILD")
    assert "'libembind.a'" in (hint or "")
    assert "with this target's flags" in (hint or "")


def test_without_a_sandbox_this_machine_lacks_the_program() -> None:
    hint = diagnose("/bin/sh: 1: em++: not found\n", 127, sandboxed=False) or ""
    assert "'em++' is not among this machine's programs" in hint
    assert "base.debian" not in hint


@pytest.mark.parametrize(
    ("output", "status"),
    [("error: expected ';' after expression\n", 1), ("file not found: x.h", 1), ("", 139)],
)
def test_anything_else_gives_none(output: str, status: int) -> None:
    assert diagnose(output, status) is None
