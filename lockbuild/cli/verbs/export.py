"""``lockbuild export``: one sub-command for each format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands

_FORMATS = {
    "dockerfile": "write a Dockerfile on the environment's image",
    "devcontainer": "write .devcontainer/devcontainer.json for editors",
    "compose": "write compose.yaml with the environment as a service",
    "cmake-presets": "write CMakePresets.json for use in the environment",
    "env": "write the environment's variables",
}


def define(commands: Commands) -> None:
    """Its grammar."""
    export = commands.group("export", "give editors and CI the environment, pinned by digest", of="formats")
    for name, text in _FORMATS.items():
        parser = export.add(name, text)
        parser.add_argument(
            "-o", "--output", metavar="FILE", type=Path, help="write this file (default: stdout)"
        )
        parser.add_argument(
            "--image", metavar="REF", help="the image in a registry (default: in this machine's engine)"
        )
        parser.add_argument(
            "--target", metavar="TARGET", help="with the variables that this target is built with"
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="write nothing; status 1 if the file is not what would be written",
        )
        if name == "env":
            parser.add_argument(
                "--format", choices=["shell", "dotenv", "github", "json"], default="shell", dest="variables"
            )


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.export.formats import FILES
    from lockbuild.workflow.export import check_file, export_text, write_file

    arguments = call.arguments
    paths = call.paths()
    output = call.output()
    if arguments.check and output is None:
        if arguments.verb not in FILES:
            raise UsageError("--check needs the file to look at", hint="name it with -o FILE")
        output = paths.directory / FILES[arguments.verb].path
    text = export_text(
        call.workspace,
        paths,
        arguments.verb,
        image=arguments.image,
        target=arguments.target,
        format_=getattr(arguments, "variables", "shell"),
    )
    call.progress.close()
    if output is None:
        call.printer.say({"text": text}, text.removesuffix("\n"))
        return ExitStatus.OK
    if not arguments.check:
        written = write_file(output, text)
        value = {"path": str(output), "written": written}
        call.printer.say(value, f"{output}: {'written' if written else 'is current'}", reassurance=True)
        return ExitStatus.OK
    checked = check_file(output, text)
    told = (
        "is current" if checked.current else "is not what the lock gives" if checked.there else "is not there"
    )
    place = arguments.output or FILES[arguments.verb].path
    hint = "" if checked.current else f"; `lockbuild export {arguments.verb} -o {place}` writes it"
    value = {"path": str(output), "current": checked.current}
    call.printer.say(value, f"{output} {told}{hint}", reassurance=checked.current)
    return ExitStatus.OK if checked.current else ExitStatus.DIFFERENT
