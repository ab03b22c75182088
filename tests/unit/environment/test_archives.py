"""Parts of archives, patched."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from lockbuild.environment.archives import archive
from lockbuild.environment.materialise import materialise, recipe
from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.events import silent
from lockbuild.model.lock import LockedTree, Source
from lockbuild.store import Store

FILES = {"p-1/README": "r\n", "p-1/src/f": "x\n", "p-1/src/deep/g": "g\n", "p-1/src2/f": "no\n"}
FIRST = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
SECOND = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+z\n"


def tarball(path: Path, files: dict[str, str] = FILES, links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            out.addfile(info)
    return path


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_only_a_directory_of_a_tar(tmp_path: Path) -> None:
    archive(tarball(tmp_path / "a"), tmp_path / "out", mount="/", strip=1, subdirectory="src")
    assert contents(tmp_path / "out") == {"f": "x\n", "deep/g": "g\n"}
    archive(tarball(tmp_path / "a"), tmp_path / "whole", mount="/opt/x", strip=0, subdirectory="p-1/src/deep")
    assert contents(tmp_path / "whole") == {"opt/x/g": "g\n"}


def test_only_a_directory_of_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        for name, text in FILES.items():
            out.writestr(name, text)
    archive(tmp_path / "a.zip", tmp_path / "out", mount="/", strip=1, subdirectory="src/")
    assert contents(tmp_path / "out") == {"f": "x\n", "deep/g": "g\n"}


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ResolveError, match=r"nothing in the directory 'lib' after dropping 1 component of"
    ) as caught:
        archive(
            tarball(tmp_path / "a"), tmp_path / "out", mount="/", strip=1, subdirectory="lib", name="a.tar"
        )
    assert caught.value.on == "a.tar"
    with pytest.raises(IntegrityError, match="only a directory can stand at the top"):
        archive(tarball(tmp_path / "a"), tmp_path / "o", mount="/", strip=1, subdirectory="README")


def test_links_out_of_the_directory_are_refused(tmp_path: Path) -> None:
    file = tarball(tmp_path / "a", links={"p-1/src/in": "deep/g", "p-1/src/deep/up": "../f"})
    archive(file, tmp_path / "out", mount="/", strip=1, subdirectory="src")
    assert (tmp_path / "out/deep/up").read_text() == "x\n"
    file = tarball(tmp_path / "a", links={"p-1/src/deep/up": "../../README"})
    with pytest.raises(IntegrityError, match="leads out"):
        archive(file, tmp_path / "other", mount="/", strip=1, subdirectory="src")


def test_patches_in_their_turn(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    tree = LockedTree(
        name="tools.x",
        platform="any",
        unpack="archive",
        mount="/opt/x",
        strip=1,
        parameters={"subdirectory": "src"},
    )

    def source(data: bytes, name: str, turn: int | None) -> Source:
        place = {"path": name} if turn else {"url": f"https://h.test/{name}"}
        return Source(
            purl=f"pkg:generic/{name}", sha256=store.add_blob(data), patch=turn, trees=[tree.id], **place
        )

    packed = source(tarball(tmp_path / "a").read_bytes(), "z.tar.gz", None)
    # The lock orders sources by their package URLs, not by their turns.
    sources = [source(SECOND, "a.patch", 2), source(FIRST, "b.patch", 1), packed]
    root = store.tree_path(materialise(store, tree, sources, report=silent))
    assert contents(root) == {"opt/x/f": "z\n", "opt/x/deep/g": "g\n"}
    swapped = [source(SECOND, "a.patch", 1), source(FIRST, "b.patch", 2), packed]
    assert recipe(tree, swapped) != recipe(tree, sources)
    with pytest.raises(ResolveError, match="the patch does not fit") as caught:
        materialise(store, tree, swapped, report=silent)
    assert caught.value.on == "a.patch: f"
    other = tree.model_copy(update={"parameters": {}})
    assert recipe(other, sources) != recipe(tree, sources)
