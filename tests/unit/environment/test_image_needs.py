"""What is added to the root of an image, and what its variables become."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockbuild.environment.compose import compose
from lockbuild.environment.image_needs import settle
from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree
from lockbuild.model.platform import Platform
from lockbuild.store import Store

AMD64 = Platform("linux", "amd64")
BUILD = "build:x:1000:1000:build:/build/home:/bin/sh\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with scripts for programs."""
    made = tmp_path / "root"
    for name in ("bin/sh", "bin/cat", "usr/bin/env"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("#!/bin/sh\n")
        (made / name).chmod(0o755)
    (made / "etc").mkdir()
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "",
            f"root:x:0:0:root:/root:/bin/sh\n{BUILD}nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
        (
            "root:x:0:0::/:/bin/ash\nnobody:x:99:99::/:",
            f"root:x:0:0::/:/bin/ash\nnobody:x:99:99::/:\n{BUILD}",
        ),
        (
            "root:x:0:0::/:\nnode:x:1000:1000::/home/node:/bin/sh\nnobody:x:65534:65534::/:\n",
            "root:x:0:0::/:\nnode:x:1000:1000::/home/node:/bin/sh\nnobody:x:65534:65534::/:\n",
        ),
    ],
)
def test_the_build_user_has_an_account(root: Path, before: str, after: str) -> None:
    if before:
        (root / "etc/passwd").write_text(before)
    settle(root, platform=AMD64, on="image")
    assert (root / "etc/passwd").read_text() == after
    assert "build:x:1000:\n" in (root / "etc/group").read_text()


def test_what_is_mounted_over_is_empty(root: Path) -> None:
    for name in ("tmp/a", "build/source/b", "build/kept", "dev/null", "etc/shadow"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    settle(root, platform=AMD64, on="image")
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} == {
        *("bin/sh", "bin/cat", "usr/bin/env", "build/kept"),
        *("etc/passwd", "etc/group", "etc/hosts", "etc/hostname"),
    }
    assert {path.name for path in root.iterdir()} >= {"opt", "proc", "sys", "run", "var"}


def test_absolute_links_stay_inside(root: Path, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    for name in ("shadow", "passwd", "tmp"):
        (host / name).write_text("the host's")
    (root / "etc").rmdir()
    (root / "etc").symlink_to(host)
    (root / "bin/sh").unlink()
    (root / "bin/sh").symlink_to("/usr/bin/env")
    settle(root, platform=AMD64, on="image")
    assert {path.read_text() for path in host.iterdir()} == {"the host's"}
    assert BUILD in (root / str(host)[1:] / "passwd").read_text()


def test_everything_that_is_wrong_is_said_at_once(root: Path) -> None:
    (root / "opt").symlink_to("usr")
    (root / "bin/sh").unlink()
    (root / "bin/sh").symlink_to("/nowhere")
    (root / "bin/cat").chmod(0o644)
    with pytest.raises(ResolveError) as caught:
        settle(root, platform=AMD64, on="image")
    assert caught.value.what == (
        "the image cannot be a base: /opt is a symbolic link, and a directory is needed there; "
        "it has no /bin/sh; it has no /bin/cat"
    )
    assert os.listdir(root / "etc") == []


# Variables


def variables(tmp_path: Path, base: dict[str, str], tool: dict[str, str]) -> dict[str, str]:
    store = Store(tmp_path / "store")
    trees: list[tuple[LockedTree, Digest]] = []
    for name, mount, exports in (("base", "/", base), ("tools.a", "/opt/a", tool)):
        with store.new_tree() as staged:
            (staged.path / mount[1:] / "bin").mkdir(parents=True)
            digest = staged.commit()
        locked = LockedTree(name=name, platform=AMD64, unpack="files", mount=mount, exports=exports)
        trees.append((locked, digest))
    return compose(store, AMD64, trees).variables


def test_tools_go_before_the_base(tmp_path: Path) -> None:
    found = variables(
        tmp_path,
        {"PATH": "/special:/usr/bin:/bin", "PKG_CONFIG_PATH": "/base", "CC": "base", "ONLY": "base"},
        {"PATH": "$OUT/x", "PKG_CONFIG_PATH": "$OUT/pc", "CC": "tool"},
    )
    assert (
        found["PATH"]
        == "/opt/a/x:/opt/a/bin:/special:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin"
    )
    assert found["PKG_CONFIG_PATH"] == "/opt/a/pc:/base"
    assert found["CC"] == "tool"
    assert found["ONLY"] == "base"


def test_a_base_that_says_nothing_changes_nothing(tmp_path: Path) -> None:
    assert variables(tmp_path, {}, {})["PATH"] == (
        "/opt/a/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    )
