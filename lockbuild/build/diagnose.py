"""Why a step failed, where its output tells: the hint that a person would give.

Only what a tool says in a stable phrase is recognised; everything else is left to the log.
"""

from __future__ import annotations

import re
import signal

_MISSING_LIBRARY = re.compile(
    r"FROZEN_CACHE[^\n]*?(?:cache file is missing|missing)[^\n]*?[\"']([^\"'\n]+)[\"']"
)
_NETWORK = re.compile(
    r"Temporary failure in name resolution|Could not resolve host|Network is unreachable|"
    r"Name or service not known|EAI_AGAIN|getaddrinfo|nodename nor servname|bad address '|"
    r"unable to resolve host address",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r"(?:sh: )?(?:\d+: )?(?:line \d+: )?([\w.+/-]+): (?:command )?not found")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_READ_ONLY = re.compile(r"(\S+): Read-only file system|Read-only file system: '([^']+)'")


def diagnose(output: str, status: int) -> str | None:
    """A hint for the end of a failed step's ``output`` and its exit ``status``; None where it says nothing known."""
    if match := _MISSING_LIBRARY.search(output):
        library = match.group(1).rsplit("/", 1)[-1]
        return (
            f"Emscripten's frozen cache has no {library!r}: add a probe that links with this target's flags to the "
            "toolchain's [derive] that makes the system libraries, then run `lockbuild lock --materialise`"
        )
    if match := _NETWORK.search(output):
        return (
            "builds have no network: declare what the step downloads under [sources], "
            "and read it from /build/sources/NAME"
        )
    if status == 127 and (match := _NOT_FOUND.search(output)):
        return (
            f"{match.group(1)!r} is not in the environment: add the Debian package that has it to "
            "[base.debian] packages, or a [tools] entry, then run `lockbuild lock`"
        )
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
