"""Layers against a model of the specification that knows no file system, and the search for files against both.

The model does what layer.md says in the order in which it says it: first everything that a layer hides of those
below, then everything that it adds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from lockbuild.archive.changeset import ChangesetWriter, apply_layer
from lockbuild.archive.layer_files import LayerFiles
from tests.support.images import Entry, directory, emptied, file, gone, hardlink, symlink, tar

Tree = dict[str, tuple[str, str]]
"""Path -> kind ("d", "f", "l") and content or target."""

NAMES = ("a", "b", "c")


def below(path: str, above: str) -> bool:
    return above == "" or path.startswith(f"{above}/")


def remove(tree: Tree, path: str, *, itself: bool = True) -> None:
    for known in [known for known in tree if below(known, path) or (itself and known == path)]:
        del tree[known]


def apply(tree: Tree, entries: Iterable[Entry]) -> None:
    """The model."""
    for entry in entries:
        above, _, last = entry.name.rpartition("/")
        if last == ".wh..wh..opq":
            remove(tree, above, itself=False)
        elif last.startswith(".wh."):
            remove(tree, f"{above}/{last[4:]}".lstrip("/"))
    for entry in entries:
        above, _, last = entry.name.rpartition("/")
        if last.startswith(".wh."):
            continue
        for depth in range(1, entry.name.count("/") + 1):
            parent = "/".join(entry.name.split("/")[:depth])
            if tree.setdefault(parent, ("d", ""))[0] != "d":
                tree[parent] = ("d", "")
        if entry.kind == b"5":
            if tree.get(entry.name, ("d",))[0] != "d":
                remove(tree, entry.name)
            tree[entry.name] = ("d", "")
            continue
        node = ("l", entry.target) if entry.kind == b"2" else ("f", entry.data.decode())
        if entry.kind == b"1":
            node = tree[entry.target]
        remove(tree, entry.name)
        tree[entry.name] = node


@st.composite
def layers(draw: st.DrawFn) -> list[list[Entry]]:
    """Layers as somebody may make them: each directory before what is in it, whiteouts anywhere among that."""
    tree: Tree = {}
    result = []
    for number in range(draw(st.integers(1, 5))):
        added: dict[str, Entry] = {}
        hidden: set[str] = set()
        whiteouts: list[Entry] = []
        parents = [""]
        ways: set[str] = set()
        for _ in range(draw(st.integers(0, 8))):
            parent = draw(st.sampled_from(parents))
            path = f"{parent}/{draw(st.sampled_from(NAMES))}".lstrip("/")
            kind = draw(st.sampled_from(["dir", "way", "file", "link", "hard", "gone", "empty"]))
            if kind == "gone":
                whiteouts.append(gone(path))
                hidden.add(path)
            elif kind == "empty":
                whiteouts.append(emptied(parent))
                hidden.add(f"{parent}/".lstrip("/"))
            elif path in added or (path in ways and kind != "way"):
                continue
            elif kind == "dir":
                added[path] = directory(path)
                parents.append(path)
            elif kind == "way":  # a directory that only what is in it tells of
                if not any(below(path, other) for other in added if added[other].kind != b"5"):
                    added[f"{path}/x"] = file(f"{path}/x", f"{number} {path}/x")
                    ways.add(path)
            elif kind == "link":
                added[path] = symlink(path, draw(st.sampled_from(["/a", "b", "../c", "nowhere"])))
            elif kind == "file":
                added[path] = file(path, f"{number} {path}")
            else:
                targets = [known for known, node in tree.items() if node[0] == "f" and known not in added]
                if targets:
                    added[path] = hardlink(path, draw(st.sampled_from(sorted(targets))))
        entries = list(added.values())
        for whiteout in whiteouts:
            above = whiteout.name.rpartition("/")[0]
            first = 0 if not above else 1 + [entry.name for entry in entries].index(above)
            entries.insert(draw(st.integers(first, len(entries))), whiteout)
        entries = [entry for entry in entries if _keeps_sense(entry, entries, added)]
        apply(tree, entries)
        result.append(entries)
    return result


def _keeps_sense(entry: Entry, entries: list[Entry], added: dict[str, Entry]) -> bool:
    """No hard link to what its own layer hides or puts out of the way: nobody writes that."""
    if entry.kind != b"1":
        return True
    way = {entry.target, *("/".join(entry.target.split("/")[:n]) for n in range(entry.target.count("/") + 1))}
    if any(path in added and added[path].kind != b"5" for path in way):
        return False
    for other in entries:
        above, _, last = other.name.rpartition("/")
        if last == ".wh..wh..opq" and below(entry.target, above):
            return False
        if last.startswith(".wh.") and f"{above}/{last[4:]}".lstrip("/") in way:
            return False
    return True


def written(root: Path) -> Tree:
    found: Tree = {}
    for parent, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(parent, name)
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = ("l", os.readlink(path))
            else:
                found[shown] = ("d", "") if path.is_dir() else ("f", path.read_text())
    return found


def unpack(root: Path, made: list[list[Entry]]) -> None:
    with ChangesetWriter(root, origin="image") as writer:
        for number, entries in enumerate(made):
            apply_layer(BytesIO(tar(entries)), writer, f"layer {number}", lowest=number == 0)


@given(layers())
@settings(max_examples=100, deadline=None)
def test_layers_give_what_the_specification_says(made: list[list[Entry]]) -> None:
    model: Tree = {}
    for entries in made:
        apply(model, entries)
    with tempfile.TemporaryDirectory() as name:
        unpack(Path(name), made)
        assert written(Path(name)) == model


@given(layers())
@settings(max_examples=100, deadline=None)
def test_files_are_found_without_unpacking(made: list[list[Entry]]) -> None:
    """What is read of the layers from the top is what stands in the root in the end."""
    plain = [[entry for entry in entries if entry.kind != b"1"] for entries in made]
    search = LayerFiles(b"a", lambda path: True, limit=1 << 20)
    for entries in reversed(plain):
        search.layer(BytesIO(tar(entries)), "layer")
    with tempfile.TemporaryDirectory() as name:
        unpack(Path(name), plain)
        files = {
            path.encode(): node[1].encode() for path, node in written(Path(name)).items() if node[0] == "f"
        }
    assert search.found == {path: data for path, data in files.items() if path.startswith(b"a/")}
