"""``lockbuild cache``: what a lock names, to a registry that serves as a cache, and from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.workflow.cache_transfer import Transferred


def define(commands: Commands) -> None:
    """Its grammar."""
    cache = commands.group("cache", "share trees, sources and recorded outputs through a registry")
    push = cache.add("push", "put what the store has of the lock into a cache")
    pull = cache.add("pull", "bring what the store lacks of the lock from a cache, all of it verified")
    for verb, key in ((push, "write"), (pull, "read")):
        verb.add_argument(
            "cache",
            metavar="REF",
            nargs="?",
            help=f"registry/repository; by default [cache] {key} of the configuration",
        )
    push.add_argument(
        "--platform", action="append", metavar="OS/ARCH", help="for this platform only, not all of the lock's"
    )
    push.add_argument("--replace", action="store_true", help="also what the cache has already, to mend it")
    pull.add_argument(
        "--platform", action="append", metavar="OS/ARCH", help="for this platform, not this machine's"
    )
    pull.add_argument(
        "--sources",
        action="store_true",
        help="the files that trees are made of, too, where the trees are there",
    )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow.cache_transfer import pull, push
    from lockbuild.workflow.project import load_lock, require_current

    project = call.project()
    lock = load_lock(project.paths)
    require_current(project, lock)
    arguments = call.arguments
    if arguments.verb == "push":
        done = push(call.workspace, lock, arguments.cache, call.platforms(), replace=arguments.replace)
    else:
        done = pull(call.workspace, lock, arguments.cache, call.platforms(), sources_too=arguments.sources)
    call.progress.close()
    _print_transferred(call.printer, done, verb="pushed" if arguments.verb == "push" else "pulled")
    return ExitStatus.OK


def _print_transferred(printer: Printer, done: Transferred, *, verb: str) -> None:
    counted = ", ".join(
        f"{len(names)} {kind.removesuffix('s') if len(names) == 1 else kind}"
        for kind, names in done.done.items()
    )
    unchanged = sum(done.unchanged.values())
    lines = [f"{verb} {counted} ({unchanged} were there already): {done.cache}"]
    why = "the store lacks it" if verb == "pushed" else "the cache lacks it"
    lines.extend(f"  without {name}: {why}" for name in done.missing)
    printer.say(done.summary(), "\n".join(lines))
