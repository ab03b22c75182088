"""The seccomp profile under which a container may switch address randomisation off, and when to use it.

It allows nothing else that an engine's own profile does not (``containers/README.md`` says how that is known). It
takes the place of that profile, so it is used only where the engine has its built-in one: what an administrator chose
instead stays.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import lockbuild
from lockbuild.transport.engine import EngineEndpoint

Filter = Literal["built-in", "chosen", "none"]
"""Which filter an engine puts before the system calls of its containers."""

_PODMANS_OWN = ("", "/usr/share/containers/seccomp.json")
"""Where Podman's packages keep the profile; empty where it has it built in."""


def profile_file() -> Path:
    """The profile, in the format of Docker and Podman."""
    package = Path(lockbuild.__file__).parent
    installed = package / "data" / "containers" / "seccomp.json"
    return installed if installed.is_file() else package.parent / "containers" / "seccomp.json"


def engine_filter(endpoint: EngineEndpoint) -> Filter:
    """What the engine says that it does; SandboxError where it does not answer."""
    if endpoint.kind == "podman":
        security = endpoint.request("GET", "/libpod/info").json().get("host", {}).get("security", {})
        if not security.get("seccompEnabled"):
            return "none"
        return "built-in" if security.get("seccompProfilePath", "") in _PODMANS_OWN else "chosen"
    for option in endpoint.request("GET", "/info").json().get("SecurityOptions") or ():
        words = dict(word.partition("=")[::2] for word in option.split(","))
        if words.get("name") == "seccomp":
            # 20.10 says default, later ones builtin.
            profile = words.get("profile", "")
            if profile == "unconfined":
                return "none"
            return "built-in" if profile in ("default", "builtin") else "chosen"
    return "none"


def security_option(endpoint: EngineEndpoint) -> str:
    """The profile as one of HostConfig.SecurityOpt. Docker takes its text, Podman the path on the engine's machine."""
    return f"seccomp={profile_file() if endpoint.kind == 'podman' else _text()}"


@cache
def _text() -> str:
    return profile_file().read_text(encoding="utf-8")
