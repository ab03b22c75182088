"""Debian packages as a tool of their own, below /opt."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.debian import debian_tool
from lockbuild.environment.materialise import materialise
from lockbuild.errors import ResolveError
from lockbuild.events import silent
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from tests.support.debs import directory, file, link, write_deb

AMD64 = Platform.parse("linux/amd64")


def made(tmp_path: Path, *debs: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir(parents=True)
    debian_tool(debs, root, mount="/opt/x", platform=AMD64, report=silent)
    return root


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_everything_stands_below_the_mount_point(tmp_path: Path) -> None:
    one = write_deb(tmp_path / "one.deb", [file("./usr/bin/x", mode=0o755), file("./etc/x.conf")])
    two = write_deb(tmp_path / "two.deb", [file("./lib/libx.so.1"), link("./usr/lib/libx.so", "libx.so.1")])
    root = made(tmp_path, one, two)
    assert names(root) == [
        "opt", "opt/x", "opt/x/etc", "opt/x/etc/x.conf", "opt/x/usr", "opt/x/usr/bin", "opt/x/usr/bin/x",
        "opt/x/usr/lib", "opt/x/usr/lib/libx.so", "opt/x/usr/lib/libx.so.1",
    ]  # fmt: skip


def test_absolute_links_lead_into_the_tool_where_that_has_their_target(tmp_path: Path) -> None:
    deb = write_deb(
        tmp_path / "one.deb",
        [
            file("./usr/lib/x/run"),
            directory("./usr/share/x"),
            link("./usr/bin/x", "/usr/lib/x/run"),
            link("./usr/bin/y", "/lib/x/run"),
            link("./usr/lib/x/data", "/usr/share/x"),
            link("./usr/bin/sh", "/bin/dash"),
            link("./usr/bin/relative", "../lib/x/run"),
        ],
    )
    root = made(tmp_path, deb) / "opt/x/usr"
    assert str((root / "bin/x").readlink()) == "/opt/x/usr/lib/x/run"
    assert str((root / "bin/y").readlink()) == "/opt/x/usr/lib/x/run"
    assert str((root / "lib/x/data").readlink()) == "/opt/x/usr/share/x"
    assert str((root / "bin/sh").readlink()) == "/bin/dash"
    assert str((root / "bin/relative").readlink()) == "../lib/x/run"


def test_the_order_of_packages_and_the_place_decide_nothing(tmp_path: Path) -> None:
    debs = [write_deb(tmp_path / f"{name}.deb", [file(f"./usr/bin/{name}", name)]) for name in "abc"]
    digests = {tree_digest(made(tmp_path / str(turn), *debs[turn:], *debs[:turn])) for turn in range(3)}
    assert len(digests) == 1


def test_no_package_for_another_architecture(tmp_path: Path) -> None:
    deb = write_deb(tmp_path / "one.deb", [file("./usr/bin/x")], architecture="arm64")
    with pytest.raises(ResolveError, match="the package is for arm64"):
        made(tmp_path, deb)


def test_through_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    tree = LockedTree(name="tools.x", platform=AMD64, unpack="debian-tool", mount="/opt/deep/x")
    deb = write_deb(tmp_path / "one.deb", [file("./usr/bin/x", mode=0o755)])
    source = Source(
        purl="pkg:deb/debian/one@1", path="pool/one.deb", sha256=store.add_file(deb), trees=[tree.id]
    )
    root = store.tree_path(materialise(store, tree, [source], report=silent))
    assert names(root) == [
        "opt",
        "opt/deep",
        "opt/deep/x",
        *(f"opt/deep/x/{name}" for name in ("usr", "usr/bin", "usr/bin/x")),
    ]
