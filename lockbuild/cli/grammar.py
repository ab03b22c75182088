"""The part of the grammar that verbs write: commands, and groups of commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockbuild.cli.call import Call


class Commands:
    """The commands of the program, or the sub-commands of one of them. ``runs`` is what those that are added run."""

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        common: argparse.ArgumentParser,
        title: str,
        *,
        required: bool = False,
        destination: str = "command",
    ) -> None:
        self.runs: Callable[[Call], int] | None = None
        self._common = common
        self._destination = destination
        self._parsers: Any = parser.add_subparsers(metavar=title[:-1].upper(), title=title, required=required)

    def add(self, name: str, text: str) -> argparse.ArgumentParser:
        """A command called ``name``; ``text`` says in a line what it does. The arguments that it takes are to be added
        to the result. It has the name in ``arguments.command`` (``arguments.verb``, in a group)."""
        parser: argparse.ArgumentParser = self._parsers.add_parser(
            name, help=text, description=text[:1].upper() + text[1:] + ".", parents=[self._common]
        )
        parser.set_defaults(**{self._destination: name}, **({"runs": self.runs} if self.runs else {}))
        return parser

    def group(self, name: str, text: str, *, of: str = "verbs") -> Commands:
        """A command that only has sub-commands, which --help calls ``of``."""
        return Commands(self.add(name, text), self._common, of, required=True, destination="verb")
