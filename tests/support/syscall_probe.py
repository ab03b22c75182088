"""Which system calls does the kernel, or a seccomp filter before it, refuse to this process?

A program that the tests run inside containers; Python's standard library is all that it needs. It reads a JSON
list of questions from standard input and writes their answers: for each call what came of it. Every call is made by
a process of its own with arguments that cannot do anything (-1 where nothing else is said), so that what differs
between two runs under different filters is what the filters say.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import resource
import select
import signal
import sys
from dataclasses import asdict, dataclass, field
from typing import Literal

Machine = Literal["native", "i386"]
MACHINE = platform.machine()

# Takes the number in edi and six arguments of 32 bits from where rsi points; makes the call as a 32-bit program does.
_INT_80 = bytes.fromhex(
    "53 55"  # push rbx, rbp
    "89 f8"  # mov eax, edi
    "49 89 f0"  # mov r8, rsi
    "41 8b 18"  # mov ebx, [r8]
    "41 8b 48 04"  # mov ecx, [r8+4]
    "41 8b 50 08"  # mov edx, [r8+8]
    "41 8b 70 0c"  # mov esi, [r8+12]
    "41 8b 78 10"  # mov edi, [r8+16]
    "41 8b 68 14"  # mov ebp, [r8+20]
    "cd 80"  # int 0x80
    "48 98"  # cdqe
    "5d 5b c3"  # pop rbp, rbx; ret
)


@dataclass(frozen=True)
class Question:
    """A system call: its number on ``machine``, and arguments; those that are left out are -1. After ``seconds`` it
    is taken to wait."""

    number: int
    arguments: list[int] = field(default_factory=list)
    machine: Machine = "native"
    seconds: float = 0.2


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def _native(number: int, arguments: list[int]) -> int:
    result: int = _LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in arguments))
    return -ctypes.get_errno() if result == -1 else result


def _i386(number: int, arguments: list[int]) -> int:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_INT_80)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_int, ctypes.c_void_p)(address)
    # On a page that 32-bit programs can reach there is nothing of ours: -1 points nowhere.
    values = (ctypes.c_int32 * 6)(*arguments)
    return int(call(number, ctypes.addressof(values)))


def answer(question: Question) -> str:
    """``ok``, ``errno N``, ``signal N`` where the process was killed, ``ended`` or ``waits``."""
    arguments = (question.arguments + [-1] * 6)[:6]
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        # What is cloned comes out here twice; a process that is traced or waits is ended by us.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        call = _native if question.machine == "native" else _i386
        result = call(question.number, arguments)
        os.write(write, b"errno %d\n" % -result if -4096 < result < 0 else b"ok\n")
        os._exit(0)
    os.close(write)
    ready = select.select([read], [], [], question.seconds)[0]
    said = os.read(read, 64) if ready else b""
    os.close(read)
    if not ready:
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if said:
        return said.decode().partition("\n")[0]
    if not ready:
        return "waits"
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended"


_CLONE_VM, _CLONE_SIGHAND, _CLONE_THREAD = 0x100, 0x800, 0x10000
PERSONALITY = {"native": 135, "i386": 136}
CLONE = {"native": 56, "i386": 120}
SOCKET = {"native": 41, "i386": 359}
"""Their numbers on x86-64 and i386."""

PERSONALITIES = [
    base | flags
    for base in (0x0, 0x1, 0x4, 0x8, 0x10)
    for flags in (0, *(1 << bit for bit in range(16, 28)), 0x20000 | 0x40000, 0x40000 | 0x400000)
] + [0xFFFFFFFF, 1 << 28, 1 << 31]
"""Values of personality(2): some execution domains, with each flag and some pairs."""


def every_number(machine: Machine, *, value: int) -> list[Question]:
    """Every call that a kernel may have, with ``value`` for each argument."""
    return [Question(number, [value] * 6, machine) for number in range(480)]


def by_arguments(machine: Machine) -> list[Question]:
    """The calls of which a filter may refuse some arguments and allow others.

    The arguments are not valid, so a call that gets to the kernel fails with EINVAL and does nothing.
    """
    clone = [
        _CLONE_THREAD | _CLONE_VM if 1 << bit == _CLONE_VM else 1 << bit | _CLONE_SIGHAND
        for bit in range(8, 32)
    ]
    return [
        *(Question(PERSONALITY[machine], [value], machine) for value in PERSONALITIES),
        *(Question(CLONE[machine], [flags, 0, 0, 0, 0, 0], machine) for flags in clone),
        *(Question(SOCKET[machine], [family], machine) for family in range(50)),
    ]


def ask(questions: list[Question]) -> str:
    """What goes into the program."""
    return json.dumps([asdict(question) for question in questions])


def main() -> None:
    questions = [Question(**item) for item in json.load(sys.stdin)]
    if any(q.machine == "i386" for q in questions) and MACHINE != "x86_64":
        sys.exit("only an x86-64 kernel runs calls of i386")
    json.dump([answer(question) for question in questions], sys.stdout)


if __name__ == "__main__":
    main()
