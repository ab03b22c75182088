"""Who a container belongs to, so that those of a killed lockbuild can be told from those in use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, on one boot of one machine and in one process namespace; ``started`` in clock ticks."""

    boot: str
    namespace: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.boot}/{self.namespace}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read what ``str()`` gives; None for anything else."""
        parts = text.split("/")
        if len(parts) != 4 or not (parts[2].isdigit() and parts[3].isdigit()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        return cls(_boot(), _namespace(), pid, _started(pid) or 0)

    def is_dead(self) -> bool:
        """Whether it is certain that the process has ended. What another machine or container runs is
        not known here."""
        if (self.boot, self.namespace) != (_boot(), _namespace()):
            return False
        return _started(self.pid) != self.started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> int | None:
    """Field 22 of proc_pid_stat(5); the command name before it may hold spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
