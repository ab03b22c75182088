"""Whatever an archive says: nothing outside changes, and no link that it leaves leads outside."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import LockbuildError

_component = st.sampled_from(["a", "b", "c", "..", ".", ""])
_path = st.lists(_component, min_size=1, max_size=6).map("/".join)
_inside = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join)
_operation = st.one_of(
    st.tuples(st.just("directory"), _inside | _path),
    st.tuples(st.just("file"), _inside | _path),
    st.tuples(st.just("symlink"), _inside | _path, _path | _path.map("/".__add__)),
    st.tuples(st.just("hardlink"), _inside | _path, _path),
)


def perform(writer: TreeWriter, operation: tuple[str, ...]) -> None:
    kind, name, *target = operation
    if kind == "file":
        writer.file(name, b"written", executable=False)
    elif kind == "directory":
        writer.directory(name)
    elif kind == "symlink":
        writer.symlink(name, target[0])
    else:
        writer.hardlink(name, target[0])


def climbs_no_higher_than(root: Path, path: Path) -> bool:
    """Follow ``path`` as the kernel does, links and all; whether every step stays at or below ``root``."""
    here = list(root.parts)
    todo = list(reversed(path.relative_to(root).parts))
    for _ in range(1000):
        if not todo:
            return True
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here.pop()
        else:
            here.append(part)
            if Path(*here).is_symlink():
                target = os.readlink(Path(*here))
                here = ["/"] if target.startswith("/") else here[:-1]
                todo.extend(reversed(target.split("/")))
        if here[: len(root.parts)] != list(root.parts):
            return False
    return True  # a circle leads nowhere


def attack(operations: list[tuple[str, ...]], *, rooted: bool) -> None:
    with tempfile.TemporaryDirectory() as top:
        # Far enough down that every '..' of an attack stays where it is looked for.
        root = Path(top, "1/2/3/4/5/6/7/root")
        root.mkdir(parents=True)
        for level in root.parents:
            if level == Path(top).parent:
                break
            (level / "c").write_bytes(b"outside")
        before = {path: path.lstat().st_ino for path in Path(top).rglob("*")}
        writer = TreeWriter(root, origin="fuzz", rooted=rooted)
        try:
            for operation in operations:
                try:
                    perform(writer, operation)
                except LockbuildError:
                    continue  # a real extraction ends here; going on tries more
            writer.finish()
        except LockbuildError:
            if not rooted:
                return  # refused as a whole; what it left is thrown away
        after = {path: path.lstat().st_ino for path in Path(top).rglob("*") if root not in path.parents}
        assert after == before
        for level in root.parents:
            if level == Path(top).parent:
                break
            assert (level / "c").read_bytes() == b"outside"
            assert (level / "c").stat().st_nlink == 1
        if not rooted:
            for path in root.rglob("*"):
                assert climbs_no_higher_than(root, path), f"{path} -> {os.readlink(path)} leads out"


@settings(max_examples=200, deadline=None)
@given(st.lists(_operation, max_size=12))
def test_a_contained_tree_stays_contained(operations: list[tuple[str, ...]]) -> None:
    attack(operations, rooted=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(_operation, max_size=12))
def test_a_rooted_tree_writes_only_inside(operations: list[tuple[str, ...]]) -> None:
    attack(operations, rooted=True)
