"""Make the image that has lockbuild in it: build the wheel of this checkout, lock it, and hand over to lockbuild.

    python containers/lockbuild/make.py                     # into the container engine of this machine
    python containers/lockbuild/make.py image push REF      # or any other command of lockbuild on this project

Needs lockbuild itself, and pip. The base is the one that ../ci/lockbuild.lock names. The wheel is the same bytes from
the same files; what lockbuild needs is taken from the package index as of now, and is in the lock that this writes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def wheel(checkout: Path, directory: Path) -> Path:
    """Build the wheel into ``directory``."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory)]
    subprocess.run([*pip, str(checkout)], check=True)
    return next(directory.glob("lockbuild-*.whl"))


def index(package: Path) -> None:
    """Make the directory of a wheel a page of a package index (simple repository API)."""
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    link = f'<a href="{package.name}#sha256={digest}">{package.name}</a>'
    (package.parent / "index.html").write_text(f"<!DOCTYPE html>\n<html><body>{link}</body></html>\n")


def lockbuild(project: Path, environ: dict[str, str], *arguments: str) -> None:
    """Run it on ``project``."""
    subprocess.run(
        [sys.executable, "-m", "lockbuild", "--project", str(project), *arguments],
        check=True,
        env={**os.environ, **environ},
    )


def indexes(extra: Path) -> dict[str, str]:
    """The environment in which the configured indexes are asked, and then the one at ``extra``."""
    from lockbuild.config import load

    config = load(os.environ)
    if config.pypi.indexes is not None:
        sys.exit(f"error: lockbuild's config.toml names pypi.indexes; add {extra.as_uri()} to them for this")
    first, *others = config.pypi_indexes()
    return {"PIP_INDEX_URL": first, "PIP_EXTRA_INDEX_URL": " ".join([*others, extra.as_uri()])}


def main(arguments: list[str]) -> None:
    """``arguments`` are lockbuild's."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "lockbuild").mkdir()
        index(wheel(HERE.parents[1], root / "lockbuild"))
        environ = indexes(root)
        # Everything but lockbuild and what it needs is as it is locked there.
        lock, base = HERE / "lockbuild.lock", HERE.parent / "ci" / "lockbuild.lock"
        lock.unlink(missing_ok=True)
        if base.exists():
            shutil.copyfile(base, lock)
        lockbuild(HERE, environ, "lock", "--quiet")
        lockbuild(HERE, environ, *(arguments or ["image", "load"]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
