"""The part of the grammar that verbs write: commands, and groups of commands; and what is said of mistakes in it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockbuild.cli.call import Call


class Parser(argparse.ArgumentParser):
    """A parser that knows options by their whole names only: what a script abbreviates, a later version may have two
    of. What a command does not know is told with its own usage and the option that is nearest."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but nothing stays unknown: exits with status 2."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return known, unknown

    def _meant(self, unknown: Iterable[str]) -> str:
        """The options that may have been meant."""
        import difflib

        options = [option for option in self._option_string_actions if option.startswith("--")]
        meant = []
        for text in unknown:
            name = text.partition("=")[0]
            if len(name) > 2 and name.startswith("--"):
                longer = [option for option in options if option.startswith(name)]
                meant += longer or difflib.get_close_matches(name, options, n=1)
        return f"; did you mean {', '.join(dict.fromkeys(meant))}?" if meant else ""


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
