"""Layers of an image, one on the other: what the specification says, and what a hostile one may try."""

from __future__ import annotations

import os
import stat
import tarfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.archive.changeset import ChangesetWriter, apply_layer
from lockbuild.errors import IntegrityError
from tests.support.images import (
    Entry,
    device,
    directory,
    emptied,
    file,
    gone,
    hardlink,
    symlink,
    tar,
)


def apply(root: Path, *layers: list[Entry], limit: int = 1 << 30) -> ChangesetWriter:
    root.mkdir(exist_ok=True)
    with ChangesetWriter(root, origin="image", limit=limit) as writer:
        for number, entries in enumerate(layers):
            apply_layer(BytesIO(tar(entries)), writer, f"layer {number + 1}", lowest=number == 0)
    return writer


def content(root: Path) -> dict[str, str | None]:
    """Every path below ``root``: a file's text, a link's target with an arrow, None for a directory."""
    found: dict[str, str | None] = {}
    for parent, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(parent, name)
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = f"-> {os.readlink(path)}"
            else:
                found[shown] = None if path.is_dir() else path.read_text()
    return found


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root beside something that must not be touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    os.utime(outside, (1, 1))
    yield tmp_path / "root"
    assert content(outside) == {"kept": "kept"}
    assert outside.stat().st_mtime == 1


def test_an_upper_layer_adds_and_replaces(root: Path) -> None:
    apply(
        root,
        [directory("d"), file("d/a", "1"), file("d/b", "1")],
        [directory("d"), file("d/b", "2"), file("e/c", "2")],
    )
    assert content(root) == {"d": None, "d/a": "1", "d/b": "2", "e": None, "e/c": "2"}


def test_a_whiteout_hides_what_is_below_it(root: Path) -> None:
    apply(
        root,
        [file("a", "1"), file("d/x", "1"), file("d/y/z", "1"), symlink("l", "a")],
        [gone("a"), gone("d/y"), gone("l"), gone("never-there"), gone("nor/this")],
    )
    assert content(root) == {"d": None, "d/x": "1", "nor": None}


@pytest.mark.parametrize("first", [True, False], ids=["whiteout first", "whiteout last"])
def test_a_whiteout_says_nothing_of_its_own_layer(root: Path, first: bool) -> None:
    added = [directory("d"), file("d/new", "2"), file("d/both", "2")]
    hidden = [emptied("d"), gone("d/both")]
    apply(
        root,
        [file("d/old", "1"), file("d/both", "1"), file("d/deep/old", "1")],
        [*hidden, *added] if first else [*added, *hidden],
    )
    assert content(root) == {"d": None, "d/new": "2", "d/both": "2"}


def test_a_directory_that_is_whited_out_and_made_again_is_a_new_one(root: Path) -> None:
    apply(root, [file("d/old", "1")], [directory("d"), file("d/new", "2"), gone("d")])
    assert content(root) == {"d": None, "d/new": "2"}


def test_the_opaque_whiteout_of_the_root(root: Path) -> None:
    apply(root, [file("a/b/c", "1"), file("d", "1")], [file("a/e", "2"), emptied("")], [file("d", "3")])
    assert content(root) == {"a": None, "a/e": "2", "d": "3"}


def test_what_a_layer_has_hidden_the_next_one_may_have_again(root: Path) -> None:
    apply(root, [file("d/a", "1")], [emptied("d")], [file("d/a", "3")], [emptied("d"), file("d/b", "4")])
    assert content(root) == {"d": None, "d/b": "4"}


def test_kinds_replace_one_another(root: Path) -> None:
    apply(
        root,
        [directory("a"), file("a/in", "1"), file("b", "1"), symlink("c", "a"), file("d/in", "1")],
        [file("a", "2"), directory("b"), file("b/in", "2"), directory("c"), symlink("d", "b")],
    )
    assert content(root) == {"a": "2", "b": None, "b/in": "2", "c": None, "d": "-> b"}


def test_a_link_of_the_same_layer_is_followed_on_the_way(root: Path) -> None:
    apply(
        root,
        [directory("usr/lib"), symlink("lib", "usr/lib"), file("lib/a", "1")],
        [symlink("abs", "/usr/lib"), file("abs/b", "2"), gone("abs/a")],
    )
    assert content(root) == {
        "usr": None,
        "usr/lib": None,
        "usr/lib/b": "2",
        "lib": "-> usr/lib",
        "abs": "-> /usr/lib",
    }


@pytest.mark.parametrize("explicit", [True, False])
def test_a_link_of_a_layer_below_gives_way_to_a_directory(root: Path, explicit: bool) -> None:
    """As with overlayfs, where a layer is unpacked by itself: it knows nothing of links below."""
    apply(
        root,
        [file("usr/lib/a", "1"), symlink("lib", "usr/lib"), file("file", "1"), symlink("other", "usr/lib")],
        [*([directory("lib")] if explicit else []), file("lib/b", "2"), file("file/c", "2"), gone("other/a")],
    )
    assert content(root) == {
        "usr": None,
        "usr/lib": None,
        "usr/lib/a": "1",
        "lib": None,
        "lib/b": "2",
        "file": None,
        "file/c": "2",
        "other": None,
    }


def test_hard_links_find_their_target_through_links_below(root: Path) -> None:
    apply(
        root,
        [file("usr/lib/a", "1"), symlink("lib", "usr/lib")],
        [hardlink("b", "lib/a"), file("lib/c", "2")],
    )
    assert content(root) == {
        "usr": None,
        "usr/lib": None,
        "usr/lib/a": "1",
        "b": "1",
        "lib": None,
        "lib/c": "2",
    }


def test_links_never_lead_out(root: Path) -> None:
    apply(
        root,
        [symlink("up", "../outside"), symlink("abs", str(root.parent / "outside"))],
        [file("up/kept", "2"), file("abs/kept", "2"), gone("up/x"), emptied("abs")],
        [gone("up/kept"), gone("abs/kept"), emptied("up")],
    )
    assert "kept" not in content(root).values()


def test_links_of_the_same_layer_never_lead_out(root: Path) -> None:
    outside = str(root.parent / "outside")
    apply(
        root,
        [directory("d")],
        [
            symlink("up", "../../outside"),
            file("up/kept", "2"),
            symlink("abs", outside),
            file("abs/kept", "2"),
        ],
        [symlink("d/up", "../../../outside"), gone("d/up/kept"), emptied("d/up")],
    )
    found = content(root)
    assert found["outside"] is None
    assert "outside/kept" not in found


def test_a_directory_that_became_a_link_is_not_followed_afterwards(root: Path) -> None:
    """What was known of names before is forgotten."""
    outside = str(root.parent / "outside")
    apply(
        root,
        [directory("a/b"), file("a/b/c", "1")],
        [gone("a"), symlink("a", outside), file("a/b/c", "2"), file("a/kept", "2")],
        [file("a/b", "3"), directory("a"), file("a/kept", "3")],
    )
    assert content(root)["a/kept"] == "3"


def test_hard_links_reach_into_lower_layers(root: Path) -> None:
    apply(
        root,
        [file("a", "1"), symlink("l", "a")],
        [hardlink("b", "a"), hardlink("d/c", "./a"), hardlink("m", "/l")],
        [file("a", "3")],
    )
    assert content(root) == {"a": "3", "b": "1", "d": None, "d/c": "1", "l": "-> a", "m": "-> a"}


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (hardlink("a/b", "nowhere"), "not in the archive"),
        (hardlink("a/b", "../../outside/kept"), "'..'"),
        (hardlink("a", "a/x"), "replace the directory"),
        (hardlink("b", "a"), "leads to a directory"),
        (file("../outside/kept"), "'..'"),
        (file("a/../../outside/kept"), "'..'"),
        (file("new/y"), "a file stands"),
        (file("a/.wh."), "names nothing"),
        (file("a/.wh.."), "names nothing"),
        (file("a/.wh..."), "names nothing"),
        (file(".wh.a/b"), "in a directory that a whiteout names"),
        (file("circle/x"), "in a circle"),
        (gone("circle/x"), "in a circle"),
        (Entry("a/z", b"~"), "unknown type"),
    ],
)
def test_what_is_refused(root: Path, entry: Entry, what: str) -> None:
    own = [symlink("circle", "elcric"), symlink("elcric", "circle"), file("new")]
    with pytest.raises(IntegrityError, match=what) as caught:
        apply(root, [file("a/x", "1")], [*own, entry])
    assert caught.value.on is not None
    assert caught.value.on.startswith("layer 2")


def test_absolute_names_are_of_the_root(root: Path) -> None:
    apply(root, [file("/etc/a", "1"), file("./b", "1"), directory("./"), directory("/")])
    assert content(root) == {"etc": None, "etc/a": "1", "b": "1"}


def test_devices_are_left_out_and_counted(root: Path) -> None:
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    writer = apply(
        root,
        [file("dev/null", "not a device"), file("a", "1")],
        [device(f"dev/{kind.decode()}", kind) for kind in kinds] + [device("dev/null")],
    )
    assert content(root) == {"dev": None, "a": "1"}
    assert writer.left_out == 4
    assert writer.left_out_names == ["/dev/3", "/dev/4", "/dev/6"]


def test_modes_are_canonical(root: Path) -> None:
    apply(root, [file("su", "", 0o4755), file("secret", "", 0o600), file("run", "", 0o700), directory("d")])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
    assert modes == {"su": 0o755, "secret": 0o644, "run": 0o755, "d": 0o755}
    tree_digest(root)


def test_what_aufs_kept_for_itself_is_passed_over(root: Path) -> None:
    apply(root, [file("a", "1")], [file(".wh..wh.aufs"), directory(".wh..wh.plnk"), file(".wh..wh.plnk/1.2")])
    assert content(root) == {"a": "1"}


def test_a_layer_that_is_cut_short_is_refused(root: Path) -> None:
    root.mkdir()
    whole = tar([file("a", "x" * 2000), file("b", "y")])
    for size in (600, 1024, 2600, 3072, 4000):
        with (
            pytest.raises(IntegrityError, match=r"damaged|cut short|ends in the middle"),
            ChangesetWriter(root, origin="image") as writer,
        ):
            apply_layer(BytesIO(whole[:size]), writer, "layer", lowest=True)


def test_opaque_whiteouts_without_end_cost_each_directory_once(root: Path) -> None:
    """A thousand of them over ten thousand files of the same layer: not ten million looks."""
    lower = [file(f"d/{number}") for number in range(1000)]
    upper = [file(f"d/new/{number}") for number in range(5000)]
    begun = time.process_time()
    apply(root, lower, [*upper, *[emptied("d"), emptied("d/new"), gone("d/new"), emptied("")] * 1000])
    assert len(list((root / "d" / "new").iterdir())) == 5000
    assert len(list((root / "d").iterdir())) == 1
    assert time.process_time() - begun < 20


def test_directories_deeper_than_any_recursion(root: Path) -> None:
    deep = "/".join("a" * 1500)
    apply(root, [file(f"{deep}/x", "1"), file(f"b/{deep}/x", "1")], [gone("a"), emptied("b"), file("c", "2")])
    assert content(root) == {"b": None, "c": "2"}


def test_a_small_layer_cannot_fill_the_disk(root: Path) -> None:
    with pytest.raises(IntegrityError, match="limit"):
        apply(root, [file(str(number)) for number in range(300)], limit=1 << 20)
