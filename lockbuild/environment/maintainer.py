"""What maintainer scripts would do to the file system, read from their text. Nothing is executed.

Two commands matter to a build environment and are nearly always written out literally:
``update-alternatives(1) --install`` (``awk``, ``cc``, ``pager``, ``which`` exist only so) and
``dpkg-divert(1) --add``. A call whose arguments hold a shell expansion cannot be known and is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS = frozenset(";|&()<>")
_EXPANSION = re.compile(r"[$`*?\[{]")


@dataclass(frozen=True, slots=True)
class AlternativeLink:
    """A managed link: ``link`` is its path, ``name`` its entry in /etc/alternatives, ``path`` what it leads to."""

    link: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """One candidate of a link group; the highest ``priority`` wins and brings its ``slaves`` with it."""

    master: AlternativeLink
    priority: int
    slaves: tuple[AlternativeLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Diversion:
    """Other packages' file ``path`` is kept at ``to`` instead. Both are absolute."""

    path: str
    to: str


def _commands(script: str) -> Iterator[list[str]]:
    """The script's simple commands, each as its words; lines that are no complete shell words are passed over."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        if "update-alternatives" not in line and "dpkg-divert" not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        command: list[str] = []
        for word in words:
            if set(word) <= _OPERATORS:
                yield command
                command = []
            else:
                command.append(word)
        yield command


def _calls(script: str, program: str) -> Iterator[list[str]]:
    """The arguments of each call of ``program`` that has no shell expansion among them."""
    for command in _commands(script):
        for index, word in enumerate(command):
            if word.rsplit("/", 1)[-1] == program:
                arguments = command[index + 1 :]
                if not any(_EXPANSION.search(argument) for argument in arguments):
                    yield arguments
                break


def alternatives(script: str) -> list[Alternative]:
    """The literal ``update-alternatives --install`` calls of a maintainer script, in its order."""
    found = []
    for arguments in _calls(script, "update-alternatives"):
        master: AlternativeLink | None = None
        priority = 0
        slaves: list[AlternativeLink] = []
        rest = iter(arguments)
        for word in rest:
            if word == "--install":
                values = [next(rest, "") for _ in range(4)]
                if not re.fullmatch(r"-?\d+", values[3]):
                    break
                master, priority = AlternativeLink(*values[:3]), int(values[3])
            elif word in ("--slave", "--follower"):
                slaves.append(AlternativeLink(*(next(rest, "") for _ in range(3))))
        links = [master, *slaves] if master else []
        if master and all(_sound(link) for link in links if link):
            found.append(Alternative(master, priority, tuple(slaves)))
    return found


def _sound(link: AlternativeLink) -> bool:
    absolute = link.link.startswith("/") and link.path.startswith("/")
    return absolute and bool(link.name) and "/" not in link.name and link.name not in (".", "..")


def diversions(script: str) -> list[Diversion]:
    """The literal ``dpkg-divert --add`` calls of a maintainer script, in its order.

    As dpkg-divert has it, ``--add`` is the default action and ``.distrib`` the default place.
    """
    found = []
    for arguments in _calls(script, "dpkg-divert"):
        path = to = ""
        rest = iter(arguments)
        for word in rest:
            if word in ("--remove", "--list", "--listpackage", "--truename"):
                path = ""
                break
            if word in ("--package", "--instdir", "--admindir", "--root"):
                next(rest, None)
            elif word == "--divert":
                to = next(rest, "")
            elif word.startswith("--divert="):
                to = word.partition("=")[2]
            elif not word.startswith("--"):
                path = word
        to = to or f"{path}.distrib"
        if path.startswith("/") and to.startswith("/"):
            found.append(Diversion(path, to))
    return found
