"""``lockbuild store``: looking after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.amounts import amount, count
from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.store.collect import Collected, Stats
    from lockbuild.store.verify import Damage


def define(commands: Commands) -> None:
    """Its grammar."""
    store = commands.group("store", "look after the store")
    verify = store.add("verify", "hash every blob and tree again")
    verify.add_argument("--repair", action="store_true", help="remove what is damaged; a sync brings it back")
    gc = store.add("gc", "remove what no known lock needs")
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    path = store.add(
        "path", "print where the store has a tree of the lock: base, tools.NAME, derive.NAME, sources.NAME"
    )
    path.add_argument("name", metavar="NAME")
    store.add("stats", "say what is in the store")


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.workflow import store

    if call.arguments.verb == "path":
        from lockbuild.workflow.run import tree_directory

        directory = tree_directory(call.workspace, call.paths(), call.arguments.name)
        call.progress.close()
        call.printer.path({"path": str(directory)}, directory)
        return ExitStatus.OK
    if call.arguments.verb == "verify":
        damages = store.verify(call.workspace, repair=call.arguments.repair)
        call.progress.close()
        _print_damages(call.printer, damages, repaired=call.arguments.repair)
        return ExitStatus.INTEGRITY if damages else ExitStatus.OK
    if call.arguments.verb == "gc":
        collected = store.collect(call.workspace, dry_run=call.arguments.dry_run)
        call.progress.close()
        _print_collected(call.printer, collected, dry_run=call.arguments.dry_run)
        return ExitStatus.OK
    _print_stats(call.printer, call.workspace.store.root, call.workspace.store.stats())
    return ExitStatus.OK


def _print_damages(printer: Printer, damages: list[Damage], *, repaired: bool) -> None:
    """What is damaged in the store."""
    value = {"damaged": [{"kind": d.kind, "path": str(d.path), "reason": d.reason} for d in damages]}
    if not damages:
        printer.say(value, "every blob and tree has its digest", reassurance=True)
        return
    done = "removed; run `lockbuild sync` to bring it back" if repaired else "--repair removes it"
    printer.say(value, "\n".join([*(f"{d.kind} {d.path}: {d.reason}" for d in damages), done]))


def _print_collected(printer: Printer, collected: Collected, *, dry_run: bool) -> None:
    """What a garbage collection freed."""
    value = {
        "blobs": [str(digest) for digest in collected.blobs],
        "trees": [str(digest) for digest in collected.trees],
        "bytes": collected.freed,
        "dry_run": dry_run,
    }
    done = "would free" if dry_run else "freed"
    printer.say(
        value,
        f"{done} {amount(collected.freed)} in {count(len(collected.blobs), 'blob')} and "
        f"{count(len(collected.trees), 'tree')}",
    )


def _print_stats(printer: Printer, root: Path, stats: Stats) -> None:
    """What is in the store."""
    value = {
        "store": str(root),
        "blobs": stats.blobs,
        "blob_bytes": stats.blob_bytes,
        "trees": stats.trees,
        "tree_bytes": stats.tree_bytes,
    }
    printer.say(
        value,
        f"{root}\n  {count(stats.blobs, 'blob')}, {amount(stats.blob_bytes)}\n"
        f"  {count(stats.trees, 'tree')}, {amount(stats.tree_bytes)}",
    )
