"""What the command line says of arguments that it does not know."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from lockbuild.cli.arguments import new_parser, parse
from lockbuild.errors import ExitStatus


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """It, and those of all commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_no_command_takes_an_option_by_the_beginning_of_its_name() -> None:
    found = list(parsers(new_parser()))
    assert len(found) > 30
    assert not any(parser.allow_abbrev for parser in found)


@pytest.mark.parametrize(
    ("line", "usage", "said"),
    [
        ("build --ofline", "lockbuild build", "unrecognized arguments: --ofline; did you mean --offline?"),
        ("--ofline build", "lockbuild", "unrecognized arguments: --ofline; did you mean --offline?"),
        ("reproduce --check", "lockbuild reproduce", "--check; did you mean --check-hash?"),
        ("image digest --compresion=zstd", "lockbuild image digest", "did you mean --compression?"),
        ("build --wasm", "lockbuild build", "unrecognized arguments: --wasm\n"),
        ("store gc everything", "lockbuild store gc", "unrecognized arguments: everything\n"),
    ],
)
def test_an_unknown_argument_is_told_with_the_usage_of_its_command(
    line: str, usage: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(line.split())
    assert ended.value.code == ExitStatus.USAGE
    told = capsys.readouterr().err
    assert told.startswith(f"usage: {usage} [-h]")
    assert said in told
    assert f"{usage}: error: " in told


def test_help_lists_every_exit_status() -> None:
    statuses = new_parser().epilog or ""
    assert {int(number) for number in re.findall(r"(?:^|  )(\d+) ", statuses)} == {*ExitStatus, 70}
