"""Which of several trees for one port an environment has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.environment.compose import compose
from lockbuild.errors import UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree
from lockbuild.model.platform import Platform
from lockbuild.store import Store

PORTS = "/opt/emscripten-ports"
AMD64 = Platform("linux", "amd64")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def tree(store: Store, name: str, port: str, text: str) -> tuple[LockedTree, Digest]:
    with store.new_tree() as staged:
        directory = staged.path / PORTS.lstrip("/") / port
        directory.mkdir(parents=True)
        (directory / "a.c").write_text(text)
        digest = staged.commit()
    mount = f"{PORTS}/{port}"
    return LockedTree(name=name, platform="any", unpack="port", mount=mount), digest


def names(store: Store, *trees: tuple[LockedTree, Digest]) -> list[str]:
    return [mounted.name for mounted in compose(store, AMD64, trees).trees]


def test_a_port_that_two_need_stands_there_once(store: Store) -> None:
    png, mixer = tree(store, "tools.libpng", "libpng", "1"), tree(store, "tools.freetype", "freetype", "2")
    first, second = (
        tree(store, "tools.libpng+zlib", "zlib", "3"),
        tree(store, "tools.freetype+zlib", "zlib", "3"),
    )
    assert names(store, png, first, mixer, second) == ["tools.libpng", "tools.libpng+zlib", "tools.freetype"]


def test_a_tool_of_its_own_goes_before_what_is_brought_along(store: Store) -> None:
    png, brought = tree(store, "tools.libpng", "libpng", "1"), tree(store, "tools.libpng+zlib", "zlib", "2")
    own = tree(store, "tools.zlib", "zlib", "3")
    assert names(store, png, brought, own) == ["tools.libpng", "tools.zlib"]


def test_two_that_need_different_ones(store: Store) -> None:
    first, second = tree(store, "tools.a+zlib", "zlib", "1"), tree(store, "tools.b+zlib", "zlib", "2")
    with pytest.raises(UsageError, match=r"tools\.a and tools\.b need different ones") as caught:
        names(store, first, second)
    assert caught.value.on == f"port {PORTS}/zlib"
