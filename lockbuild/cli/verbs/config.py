"""``lockbuild config``: what is in force on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.errors import ExitStatus

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.cli.result import Printer
    from lockbuild.config.effective import Setting


def define(commands: Commands) -> None:
    """Its grammar."""
    config = commands.group("config", "say where bytes come from on this machine")
    config.add("show", "print every value that is in force, and where it comes from")
    config.add("path", "print which file the configuration is read from, whether it is there or not")


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    from lockbuild.config import config_path, load

    path, _ = config_path(os.environ)
    if call.arguments.verb == "path":
        call.printer.say({"path": str(path.absolute()), "exists": path.is_file()}, str(path.absolute()))
        return ExitStatus.OK
    from lockbuild.config.effective import effective

    _print_config(call.printer, path.absolute(), effective(load(os.environ), os.environ))
    return ExitStatus.OK


def _print_config(printer: Printer, path: Path, settings: list[Setting]) -> None:
    """The configuration that is in force."""
    value = {
        "path": str(path),
        "exists": path.is_file(),
        "settings": [{"key": s.key, "value": s.value, "origin": s.origin} for s in settings],
    }
    lines = [f"{path}{'' if path.is_file() else ' (there is no such file)'}"]
    width = max(len(setting.origin) for setting in settings)
    for setting in settings:
        shown = "none" if setting.value is None else json.dumps(setting.value, ensure_ascii=False)
        lines.append(f"  {setting.origin:<{width}}  {setting.key} = {shown}")
    printer.say(value, "\n".join(lines))
