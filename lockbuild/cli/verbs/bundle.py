"""``lockbuild bundle``: everything that a lock needs, as one file for where there is no network."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.amounts import amount, count
from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.oci.bundle.contents import Contents
    from lockbuild.workflow.bundle.load import Loaded

_SIZE = re.compile(r"([1-9][0-9]{0,14})([KMGT]?)")
_SHOWN = 20


def define(commands: Commands) -> None:
    """Its grammar."""
    bundle = commands.group("bundle", "take everything that a lock needs to where there is no network")
    create = bundle.add("create", "write a bundle of the lock")
    create.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the bundle")
    create.add_argument(
        "--for",
        dest="purpose",
        choices=["offline-sync", "offline-lock"],
        default="offline-sync",
        help="what the other site does: sync, build and reproduce (the default), or also lock",
    )
    create.add_argument(
        "--with",
        dest="what",
        choices=["trees", "sources", "both"],
        default="trees",
        help="ready trees (the default), what they are made of, or both; derived tools are always ready",
    )
    create.add_argument(
        "--platform", action="append", metavar="OS/ARCH", help="for this platform, not this machine's"
    )
    create.add_argument(
        "--since",
        metavar="OLD",
        type=Path,
        help="a lock or a bundle that the other site has: leave out what that needs",
    )
    create.add_argument(
        "--compression",
        choices=["zstd", "gzip", "none"],
        help="of the trees (default: zstd, with --image gzip)",
    )
    create.add_argument(
        "--image", action="store_true", help="insist on the image, so that every `docker load` reads it"
    )
    create.add_argument(
        "--signatures", action="store_true", help="have the signed indexes of Debian suites in it, too"
    )
    create.add_argument(
        "--split",
        metavar="SIZE",
        type=_size,
        help="write parts of at most SIZE (K, M, G: powers of 1024): FILE.000, FILE.001, …",
    )
    load = bundle.add(
        "load", "take what a bundle holds into the store; with --project, look what its lock lacks"
    )
    load.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        type=Path,
        help="the bundle, or all its parts; - is standard input",
    )
    verify = bundle.add("verify", "read all of a bundle, and look whether it is what it says")
    verify.add_argument("files", nargs="+", metavar="FILE", type=Path, help="the bundle, or all its parts")
    inspect = bundle.add("inspect", "say what a bundle holds")
    inspect.add_argument("files", nargs="+", metavar="FILE", type=Path, help="the bundle, or its first part")
    inspect.add_argument("--lock", action="store_true", help="print its lock and nothing else")


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 700M, 4G or a number of bytes")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    return {"create": _create, "load": _load, "verify": _verify, "inspect": _inspect}[call.arguments.verb](
        call
    )


def _create(call: Call) -> ExitStatus:
    from lockbuild.workflow.bundle.contents import BundleOptions
    from lockbuild.workflow.bundle.create import create
    from lockbuild.workflow.project import load_lock

    arguments = call.arguments
    project = call.project()
    options = BundleOptions(
        purpose=arguments.purpose,
        what=arguments.what,
        platforms=tuple(call.platforms()),
        chosen_compression=arguments.compression,
        since=arguments.since,
        image=arguments.image,
        signatures=arguments.signatures,
        split=arguments.split,
    )
    output = call.output_file()
    assert output is not None, "the grammar requires it"
    created = create(call.workspace, project, load_lock(project.paths), options, output)
    call.progress.close()
    value = {
        "files": [str(file) for file in created.files],
        "digest": str(created.digest),
        "size": created.size,
        **_value(created.contents),
    }
    lines = [f"{file}" for file in created.files]
    lines.append(f"{amount(created.size)}, {created.digest}")
    names = " ".join(file.name for file in created.files)
    lines.append(f"on the other site: lockbuild bundle load {names}")
    call.printer.say(value, "\n".join(lines))
    return ExitStatus.OK


def _load(call: Call) -> ExitStatus:
    from lockbuild.workflow.bundle.load import load

    paths = call.paths() if call.arguments.project is not None else None
    loaded = load(call.workspace, call.arguments.files, paths)
    call.progress.close()
    lacking = [*loaded.missing, *(loaded.project_missing or ())]
    value = {
        **_value(loaded.contents),
        "loaded": {"trees": list(loaded.trees), "sources": list(loaded.sources)},
        "there": loaded.there,
        "missing": list(loaded.missing),
        "project_missing": None if loaded.project_missing is None else list(loaded.project_missing),
    }
    call.printer.say(value, "\n".join(_loaded(loaded)), reassurance=not lacking)
    return ExitStatus.FETCH if lacking else ExitStatus.OK


def _loaded(loaded: Loaded) -> list[str]:
    lines = [
        f"loaded {count(len(loaded.trees), 'tree')} and {count(len(loaded.sources), 'file')}; "
        f"{loaded.there} {'was' if loaded.there == 1 else 'were'} there already"
    ]
    if loaded.missing:
        base = loaded.contents.since
        lines.append(f"the bundle goes on from the lock {base}, and the store lacks of what that needs:")
        lines += _listed(loaded.missing)
        lines.append("next: load the bundle of that lock, or one made without --since")
    elif loaded.project_missing:
        lines.append("the store lacks of what the project's lock needs:")
        lines += _listed(loaded.project_missing)
        lines.append("next: make the bundle from the lock that the project has now, and load that")
    elif loaded.project_missing is not None:
        lines.append("the project's lock has all that it needs; next: lockbuild sync --offline")
    else:
        lines.append(
            f"next: lockbuild sync --offline, in a project with the lock {loaded.contents.lock.digest}\n"
            "(`lockbuild store gc` takes away what was loaded until then)"
        )
    return lines


def _verify(call: Call) -> ExitStatus:
    from lockbuild.workflow.bundle.verify import verify

    contents = verify(call.workspace, call.arguments.files)
    call.progress.close()
    call.printer.say(
        _value(contents),
        f"the bundle is sound: {count(sum(1 for _ in contents.held()), 'blob')}, all named by its lock",
        reassurance=True,
    )
    return ExitStatus.OK


def _inspect(call: Call) -> ExitStatus:
    from lockbuild.oci.bundle.text import index_text
    from lockbuild.workflow.bundle.verify import inspect

    found = inspect(call.arguments.files)
    call.progress.close()
    if call.arguments.lock:
        if call.arguments.json:
            call.printer.say({"lock": found.lock_text}, "")
        else:
            call.printer.raw(found.lock_text)
        return ExitStatus.OK
    call.printer.say(_value(found.contents), index_text(found.contents, found.lock).rstrip("\n"))
    return ExitStatus.OK


def _value(contents: Contents) -> dict[str, Any]:
    """What a bundle holds, as JSON (docs/bundles.md)."""
    return {"contents": contents.model_dump(mode="json", by_alias=True, exclude_none=True)}


def _listed(names: tuple[str, ...]) -> list[str]:
    more = [f"  and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return [*(f"  {name}" for name in names[:_SHOWN]), *more]
