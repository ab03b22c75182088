"""The command line's grammar: the options that all commands take, before or after the name; each verb adds its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import lockbuild
from lockbuild.cli.grammar import Commands, Parser
from lockbuild.cli.verbs import VERBS

_STATUSES = """\
exit status:
  0 fine                        4 a source could not be fetched or stored
  1 a difference, a stale lock  5 bytes did not match their digest
  2 usage, invalid file         6 the build failed
  3 nothing recorded            7 no usable sandbox or engine
  70 a fault in lockbuild       130 interrupted
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; exits with status 2 where it is not one."""
    parser = new_parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.error("name a command; `lockbuild --help` lists them")
    for name, value in _COMMON_DEFAULTS.items():
        if not hasattr(arguments, name):
            setattr(arguments, name, value)
    return arguments


_COMMON_DEFAULTS = {
    "project": None,
    "store": None,
    "offline": False,
    "json": False,
    "quiet": False,
    "verbose": False,
    "backend": "auto",
}


def _common() -> argparse.ArgumentParser:
    """The options of every command. No defaults here: those of a subparser would undo what stands before it."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("common options")
    group.add_argument("--project", metavar="DIR", type=Path, help="the project (default: here or above)")
    group.add_argument("--store", metavar="DIR", type=Path, help="the content-addressed store")
    group.add_argument(
        "--offline", action="store_true", help="use no network; fail at once for what is missing"
    )
    group.add_argument("--json", action="store_true", help="print the result as JSON")
    group.add_argument(
        "--backend",
        choices=["auto", "docker", "bubblewrap", "host"],
        help="the sandbox; auto takes an engine that answers, else bubblewrap",
    )
    volume = group.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print errors and results only")
    volume.add_argument("-v", "--verbose", action="store_true", help="say more about what is done")
    return common


def new_parser() -> argparse.ArgumentParser:
    """The whole grammar."""
    common = _common()
    parser = Parser(
        prog="lockbuild",
        description="Make WebAssembly/WebGPU builds a pure function of a lock file.",
        epilog=_STATUSES,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lockbuild {lockbuild.__version__}")
    parser.set_defaults(command=None)
    commands = Commands(parser, common, "commands")
    for verb in VERBS:
        commands.runs = verb.run
        verb.define(commands)
    return parser
