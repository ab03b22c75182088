"""The command line's grammar. Every command takes the common options, before or after its name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import lockbuild

_STATUSES = """\
exit status:
  0 fine                        4 a source could not be fetched or stored
  1 a difference, a stale lock  5 bytes did not match their digest
  2 usage, invalid file         6 the build failed
  3 nothing recorded            7 no usable sandbox or engine
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; exits with status 2 where it is not one."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.error("name a command; `lockbuild --help` lists them")
    for name, value in _COMMON_DEFAULTS.items():
        if not hasattr(arguments, name):
            setattr(arguments, name, value)
    return arguments


_AGE = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 36h, 7d or 2w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


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


def _parser() -> argparse.ArgumentParser:
    common = _common()
    parser = argparse.ArgumentParser(
        prog="lockbuild",
        description="Make WebAssembly/WebGPU builds a pure function of a lock file.",
        epilog=_STATUSES,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lockbuild {lockbuild.__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=text[:1].upper() + text[1:] + ".", parents=[common]
        )
        sub.set_defaults(command=name)
        return sub

    lock = command("lock", "resolve the manifest into a lock, keeping pins that need not change")
    lock.add_argument(
        "--materialise", action="store_true", help="also fetch, and write digests of trees and images"
    )
    lock.add_argument(
        "--platform",
        action="append",
        metavar="OS/ARCH",
        help="have the lock for this platform, too; with --materialise, its digests and not this machine's",
    )
    lock.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if the lock is not current"
    )
    lock.add_argument(
        "--upgrade", nargs="*", metavar="NAME", help="resolve everything, or what is named, afresh"
    )
    lock.add_argument("--dry-run", action="store_true", help="write nothing; print what would change")
    lock.add_argument(
        "--min-age",
        type=_age,
        metavar="AGE",
        help="ignore releases that are younger: 7d, 36h, 2w; says so where an age is not known",
    )
    lock.add_argument(
        "--toolchain",
        metavar="NAME",
        help="lock a toolchain (shipped, or a path) without a project, into -o FILE",
    )
    lock.add_argument("-o", "--output", metavar="FILE", type=Path, help="with --toolchain: the lock")
    lock.add_argument(
        "--allow-expired",
        action="store_true",
        help="accept a signed index past its Valid-Until; the lock says so",
    )

    command("sync", "make the lock real: fetch, verify, materialise, and load the image into an engine")

    build = command("build", "build in the sandbox and put the outputs into dist")
    build.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    build.add_argument("-o", "--output", metavar="DIR", type=Path, help="where outputs go (default: dist)")

    reproduce = command("reproduce", "build again and compare")
    reproduce.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    mode = reproduce.add_mutually_exclusive_group()
    mode.add_argument("--check-hash", action="store_true", help="compare with the lock (the default)")
    mode.add_argument("--record", action="store_true", help="write the outputs' hashes into the lock")
    mode.add_argument("--twice", action="store_true", help="build two times and compare the two")
    reproduce.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="with --check-hash: keep the outputs here"
    )

    for name, text in (
        ("run", "run a command inside the environment: lockbuild run -- CMD…"),
        ("shell", "open a shell inside the environment"),
    ):
        inside = command(name, text)
        inside.add_argument(
            "--target", metavar="TARGET", help="whose source and variables (default: the only one)"
        )
        inside.add_argument(
            "--failed", action="store_true", help="start in the last failed build's directory"
        )
        if name == "run":
            inside.add_argument(
                "argv", nargs="+", metavar="CMD", help="the command and its arguments, after --"
            )

    store = command("store", "look after the store")
    verbs = store.add_subparsers(metavar="VERB", title="verbs", required=True)

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(
            name, help=text, description=text[:1].upper() + text[1:] + ".", parents=[common]
        )
        sub.set_defaults(verb=name)
        return sub

    verify = verb("verify", "hash every blob and tree again")
    verify.add_argument("--repair", action="store_true", help="remove what is damaged; a sync brings it back")
    gc = verb("gc", "remove what no known lock needs")
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    path = verb("path", "print where a tree of the lock is: base, tools.NAME, derive.NAME, sources.NAME")
    path.add_argument("name", metavar="NAME")
    verb("stats", "say what is in the store")

    config = command("config", "say where bytes come from on this machine")
    config_verbs = config.add_subparsers(metavar="VERB", title="verbs", required=True)
    for name, text in (
        ("show", "print every value that is in force, and where it comes from"),
        ("path", "print which file the configuration is read from, whether it is there or not"),
    ):
        sub = config_verbs.add_parser(
            name, help=text, description=text[:1].upper() + text[1:] + ".", parents=[common]
        )
        sub.set_defaults(verb=name)

    schema = command("schema", "print the JSON Schema of a file format")
    schema.add_argument("format", choices=["manifest", "toolchain", "lock", "config"])
    return parser
