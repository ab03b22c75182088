"""A port, unpacked and marked as Emscripten would."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.environment.materialise import materialise
from lockbuild.errors import IntegrityError
from lockbuild.events import silent
from lockbuild.model.lock import LockedTree, Source
from lockbuild.store import Store
from tests.support.emscripten import tar_xz, zipped

URL = "https://archive.test/zlib-1.3.zip"
MOUNT = "/opt/emscripten-ports/zlib"
FILES = {"zlib-1.3/zlib.h": "int z;\n", "zlib-1.3/__pycache__/port.pyc": "x", "zlib-1.3/sub/a.c": ""}


def make(work: Path, data: bytes | Path, /, *, count: int = 1, **parameters: str) -> Path:
    store = Store(work / "store")
    digest = store.add_blob(data) if isinstance(data, bytes) else store.add_file(data)
    source = Source(purl="pkg:generic/zlib@1.3", url=URL, sha256=digest, trees=["any:tools.zlib"])
    tree = LockedTree(name="tools.zlib", platform="any", unpack="port", mount=MOUNT, parameters=parameters)
    made = materialise(store, tree, [source] * count, report=silent)
    return store.tree_path(made) / MOUNT.lstrip("/")


def listing(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_unpacked_as_it_is_and_marked(tmp_path: Path) -> None:
    expected = {"zlib-1.3/zlib.h": "int z;\n", "zlib-1.3/sub/a.c": "", ".emscripten_url": f"{URL}\n"}
    assert listing(make(tmp_path, zipped(FILES), url=URL)) == expected
    assert listing(make(tmp_path, tar_xz(tmp_path / "a.tar.xz", FILES), url=URL)) == expected


def test_another_version_takes_the_place_of_the_pinned_one(tmp_path: Path) -> None:
    root = make(tmp_path, zipped(FILES), url=URL, directory="zlib-1.3", **{"as": "zlib-1.4"})
    assert listing(root) == {
        "zlib-1.4/zlib.h": "int z;\n",
        "zlib-1.4/sub/a.c": "",
        ".emscripten_url": f"{URL}\n",
    }


def test_a_marker_in_the_archive_does_not_count(tmp_path: Path) -> None:
    assert listing(make(tmp_path, zipped({".emscripten_url": "https://evil.test/x\n"}), url=URL)) == {
        ".emscripten_url": f"{URL}\n"
    }


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "a port is made of one archive and the URL that marks it"),
        ({"url": "https://a.test/x\nhttps://b.test/y"}, "the URL that marks it"),
        ({"url": URL, "directory": "zlib-9", "as": "zlib-1"}, "the archive has no directory 'zlib-9'"),
        ({"url": URL, "directory": "zlib-1.3", "as": "zlib-1.3"}, "to be called 'zlib-1.3'"),
        ({"url": URL, "directory": "zlib-1.3"}, "'' is not the name of a directory"),
        ({"url": URL, "directory": "..", "as": "x"}, "'..' is not the name of a directory"),
        ({"url": URL, "directory": "zlib-1.3", "as": "../x"}, "'../x' is not the name of a directory"),
    ],
)
def test_a_lock_that_was_edited(tmp_path: Path, parameters: dict[str, str], said: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        make(tmp_path, zipped(FILES), **parameters)
    assert said in str(caught.value)


def test_one_archive_is_one_port(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="one archive"):
        make(tmp_path, zipped(FILES), count=2, url=URL)


def test_an_archive_that_climbs_out(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"has a '\.\.'"):
        make(tmp_path, zipped({"a/../../x": ""}), url=URL)
