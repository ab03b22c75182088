"""A small real environment for tests of sandboxes and images: busybox as base, one tool, one input."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lockbuild.archive.canonical import tree_digest
from lockbuild.model.environment import Environment, MountedTree, ReadOnlyInput, SandboxSpec
from lockbuild.model.platform import Platform

ACCOUNTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nbuild:x:1000:1000::/build/home:/bin/sh\n",
    "etc/group": "root:x:0:\nbuild:x:1000:\n",
}


def make_spec(directory: Path, *, setarch: bool = True) -> SandboxSpec:
    """Lay out base, tool and input below ``directory``, as a store does: canonical modes and times."""
    base = _base(directory / "base")
    if setarch:
        _setarch(base)
    tool = directory / "tool"
    _write(tool / "opt/tool/bin/greet", "#!/bin/sh\necho greetings from $0\n", executable=True)
    source = directory / "source"
    _write(source / "main.c", "int main(){}\n")
    _write(source / "scripts/configure", "#!/bin/sh\n", executable=True)
    (source / "link").symlink_to("main.c")
    for root in (base, tool, source):
        _normalise(root)
    trees = tuple(
        MountedTree(name, tree_digest(root), mount, root)
        for name, mount, root in (("base", "/", base), ("tools.tool", "/opt/tool", tool))
    )
    variables = {"PATH": "/opt/tool/bin:/usr/bin", "HOME": "/build/home"}
    return SandboxSpec(
        Environment(Platform.of_machine(os.uname().machine), trees, variables),
        inputs=(ReadOnlyInput(source, "/build/source"),),
        variables={"SOURCE": "/build/source", "BUILD": "/build/build"},
    )


def _base(root: Path) -> Path:
    busybox = shutil.which("busybox")
    assert busybox, "these tests need a static busybox: apt install busybox-static"
    programs = root / "usr/bin"
    programs.mkdir(parents=True)
    shutil.copyfile(busybox, programs / "busybox")
    (programs / "busybox").chmod(0o755)
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        if name != "busybox":
            (programs / name).symlink_to("busybox")
    (root / "bin").symlink_to("usr/bin")
    for name in ("dev", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "var/lib"):
        (root / name).mkdir(parents=True)
    for name, text in ACCOUNTS.items():
        _write(root / name, text)
    return root


def _setarch(root: Path) -> None:
    """The machine's own, with its libraries: busybox's cannot switch address randomisation off."""
    program = shutil.which("setarch")
    assert program, "these tests need setarch: apt install util-linux"
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for file in (program, *(word for word in listed.split() if word.startswith("/"))):
        place = root / ("usr/bin/setarch" if file == program else file[1:])
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        place.chmod(0o755)


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if executable else 0o644)


def _normalise(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
        os.utime(path, (0, 0), follow_symlinks=False)
