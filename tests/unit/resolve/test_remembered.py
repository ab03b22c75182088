"""Resolutions that were found before: the same, whatever is asked of the network, and only for the same question."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.resolve import Resolution
from lockbuild.resolve.remembered import recall_resolution, recipe_digest, remember_resolution
from lockbuild.store import Store
from tests.support.tiny import tiny_world

FOUND = Resolution(
    (
        LockedTree(
            name="tools.x",
            platform=Platform.parse("linux/arm64"),
            unpack="debian-tool",
            mount="/opt/x",
            parameters={"a": "b"},
            pins={"c": "d"},
            exports={"E": "$OUT"},
        ),
    ),
    (
        Source(
            purl="pkg:deb/debian/a@1?arch=arm64",
            path="pool/a",
            size=0,
            commit="1" * 40,
            sha512="2" * 128,
            at="x/y",
            patch=3,
            trust="first-use",
            trees=["linux/arm64:tools.x"],
        ),
    ),
)


def test_what_was_found_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = recipe_digest("kind", {"a": [1, "b"]})
    assert recall_resolution(store, key) is None
    remember_resolution(store, key, FOUND)
    assert recall_resolution(store, key) == FOUND
    assert recall_resolution(Store(tmp_path), recipe_digest("kind", {"a": [1, "b"]})) == FOUND


@pytest.mark.parametrize(
    ("kind", "recipe"), [("other", {"a": [1, "b"]}), ("kind", {"a": ["b", 1]}), ("kind", {})]
)
def test_another_question_has_another_answer(tmp_path: Path, kind: str, recipe: dict[str, object]) -> None:
    store = Store(tmp_path)
    remember_resolution(store, recipe_digest("kind", {"a": [1, "b"]}), FOUND)
    assert recall_resolution(store, recipe_digest(kind, recipe)) is None


def test_a_damaged_or_collected_answer_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = recipe_digest("kind", {})
    remember_resolution(store, key, FOUND)
    digest = store.recall(key)
    assert digest is not None
    path = store.blob_path(digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"tools.x", b"tools.y"))
    assert recall_resolution(store, key) is None
    store.remember(key, store.add_blob(b"[]"))
    assert recall_resolution(store, key) is None


def test_a_suite_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    with tiny_world(tmp_path) as world:
        lock = world.project / "lockbuild.lock"

        def asked() -> list[str]:
            before = len(world.server.paths())
            world.run("lock", "--upgrade")
            return [path.rpartition("/dists/")[2] for path in world.server.paths()[before:]]

        world.run("lock")
        first = lock.read_text()
        assert asked() == ["forky/InRelease"]
        assert lock.read_text() == first
        world.edit("toolchain.toml", '"busybox", "greeting"', '"busybox"')
        world.run("lock")
        assert "greeting" not in lock.read_text().partition("[[sources]]")[2]
        world.edit("toolchain.toml", '"busybox"', '"busybox", "greeting"')
        world.archive.add("greeting", "2.0", contents={"usr/share/greeting": "hello\n"})
        world.publish()
        assert len(asked()) > 1
        assert "greeting@2.0" in lock.read_text()
