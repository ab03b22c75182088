"""Why a step failed, where its output tells: the hint that a person would give.

Only what a tool says in a stable phrase is recognised; everything else is left to the log.
"""

from __future__ import annotations

import re
import signal

# Emscripten shows the line of its source that says so, too: there stands the name of a variable, in braces.
_MISSING_LIBRARY = re.compile(r"FROZEN_CACHE[^\n]*?missing:? *[\"']([^\"'{}\n]+)[\"']")
_COMPILER = re.compile(r"(?:.*/)?em(?:cc|\+\+)")
_VARIANT = re.compile(
    r"-(?:O\w|g\w*|pthread|m\w[\w=.-]*|s[A-Z][\w=@,.-]*|l\w+|flto(?:=\w+)?|f(?:no-)?(?:wasm-)?exceptions"
    r"|f(?:no-)?rtti|fsanitize=[\w,]+|-use-port=[\w:=,.-]+)"
)
"""Flags by which Emscripten chooses which libraries to link, and which variant of each."""
_NETWORK = re.compile(
    r"Temporary failure in name resolution|Could not resolve host|Network is unreachable|"
    r"Name or service not known|EAI_AGAIN|getaddrinfo|nodename nor servname|bad address '|"
    r"unable to resolve host address",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r"(?:sh: )?(?:\d+: )?(?:line \d+: )?([\w.+/-]+): (?:command )?not found")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_READ_ONLY = re.compile(r"(\S+): Read-only file system|Read-only file system: '([^']+)'")


def diagnose(output: str, status: int, *, step: str = "", sandboxed: bool = True) -> str | None:
    """A hint for the end of a failed step's ``output`` and its exit ``status``; None where it says nothing known.

    ``sandboxed`` is whether the ``step`` saw the locked environment, and not this machine's programs.
    """
    if match := _MISSING_LIBRARY.search(output):
        return _missing_library(match.group(1).rsplit("/", 1)[-1], _variant_flags(step))
    if match := _NETWORK.search(output):
        return (
            "builds have no network: declare what the step downloads under [sources], "
            "and read it from /build/sources/NAME"
        )
    if status == 127 and (match := _NOT_FOUND.search(output)):
        return _missing_program(match.group(1), sandboxed=sandboxed)
    if match := _READ_ONLY.search(output):
        path = match.group(1) or match.group(2)
        return f"{path} is an input and read-only: write below $BUILD"
    if _DISK_FULL.search(output):
        return "builds write to the disk that has the store: free some space there, or name another --store"
    if status == 128 + signal.SIGKILL:
        return (
            "it was killed, most likely because memory ran out: see `dmesg`, or let it run fewer jobs at once"
        )
    return None


def _missing_program(name: str, *, sandboxed: bool) -> str:
    if not sandboxed:
        return (
            f"{name!r} is not among this machine's programs, which are what the host back-end uses: install it, or "
            "build in the locked environment with --backend bubblewrap or docker"
        )
    return (
        f"{name!r} is not in the environment: add the Debian package that has it to [base.debian] packages, or a "
        "[tools] entry, then run `lockbuild lock`"
    )


def _missing_library(library: str, flags: list[str]) -> str:
    if not flags and "-mt." in library:
        flags = ["-pthread"]
    linked = " ".join(flags) if flags else "FLAGS"
    which = f"with {linked}" if flags else "with this target's flags"
    return (
        f"Emscripten's frozen cache has no {library!r}: let the toolchain's derived libraries be linked {which}, too, "
        f'by [overrides.derive.emscripten-libraries] extra-steps = ["em++ {linked} p.cpp -o p.js"] in lockbuild.toml '
        "(the name is that of the toolchain's [derive.NAME]), then run `lockbuild lock --materialise`"
    )


def _variant_flags(step: str) -> list[str]:
    """The flags of the last command in ``step`` that calls Emscripten's compiler, those that decide on libraries."""
    found: list[str] = []
    for command in re.split(r"[\n;|&]+", step):
        words = command.split()
        if any(_COMPILER.fullmatch(word) for word in words):
            joined = re.sub(r"(?<!\S)-s +(?=[A-Z])", "-s", command).split()
            found = [word for word in joined if _VARIANT.fullmatch(word)]
    return list(dict.fromkeys(found))
