"""Running commands and measuring them: wall-clock time, and the memory of a whole process tree."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
_SAMPLE_SECONDS = 0.05


def lockbuild(*arguments: str | Path) -> list[str]:
    """The command line that runs this checkout's lockbuild with this interpreter."""
    return [sys.executable, "-m", "lockbuild", *map(str, arguments)]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment with ``variables``, and this checkout on Python's path."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), **variables}


def seconds(command: Sequence[str], variables: Mapping[str, str] | None = None) -> float:
    """How long ``command`` takes; RuntimeError with what it printed where it fails."""
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        status = subprocess.call(
            command,
            env=environment(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        elapsed = time.perf_counter() - begin
        if status != 0:
            output.seek(0)
            said = output.read()[-4000:].decode("utf-8", "replace")
            raise RuntimeError(f"{' '.join(command)[:300]} ended with status {status}:\n{said}")
    return elapsed


def processor_seconds() -> float:
    """What all processes that this one has waited for, and those that they have, took of the processors so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def settle() -> None:
    """Bring to the disk what earlier runs wrote, so that none pays for another."""
    os.sync()
    time.sleep(1)


def peak_memory(command: Sequence[str], variables: Mapping[str, str] | None = None) -> float:
    """The most that all processes of ``command`` held at once, in MB (10^6 bytes).

    Each page counts once, however many of the processes share it (PSS, proc(5)); sampled 20 times a second.
    """
    process = subprocess.Popen(
        command,
        env=environment(variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ended = threading.Event()
    peak = 0

    def sample() -> None:
        nonlocal peak
        while not ended.wait(_SAMPLE_SECONDS):
            peak = max(peak, sum(_proportional(pid) for pid in _tree(process.pid)))

    sampler = threading.Thread(target=sample)
    sampler.start()
    status = process.wait()
    ended.set()
    sampler.join()
    if status != 0:
        raise RuntimeError(f"{' '.join(command)[:300]} ended with status {status}")
    return peak / 1e6


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
