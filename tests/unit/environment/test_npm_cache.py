"""The cache that npm finds locked packages in: its bytes are a function of the packages alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.materialise import materialise, recipe
from lockbuild.environment.npm_cache import REGISTRY, npm_cache
from lockbuild.errors import IntegrityError
from lockbuild.events import silent
from lockbuild.model.lock import LockedTree, Source
from lockbuild.store import Store
from tests.support.npm import NpmPackage, integrity, npm_package

TREE = LockedTree(name="tools.web", platform="any", unpack="npm", mount="/opt/web")
PACKAGES = [npm_package("left"), npm_package("left", "2.0.0"), npm_package("@corp/odd")]


def source(package: NpmPackage, **more: str) -> Source:
    values = {"path": package.path, **more}
    name = package.name.replace("@", "%40")
    sha512 = hashlib.sha512(package.data).hexdigest()
    purl = f"pkg:npm/{name}@{package.version}"
    return Source.model_validate({"purl": purl, "sha512": sha512, "trees": [TREE.id], **values})


def made(directory: Path, packages: list[NpmPackage]) -> Path:
    root = directory / "root"
    root.mkdir(parents=True)
    files = []
    for number, package in enumerate(packages):
        files.append(directory / f"{number}.tgz")
        files[-1].write_bytes(package.data)
    npm_cache([source(package) for package in packages], files, root, mount="/opt/web")
    return root


def index(root: Path) -> dict[str, list[dict[str, object]]]:
    """The entries of the index by key, read as npm's cacache does: a line counts if its checksum is right."""
    found: dict[str, list[dict[str, object]]] = {}
    for file in (root / "opt/web/cache/_cacache/index-v5").rglob("*"):
        if file.is_file():
            for line in file.read_text().split("\n")[1:]:
                digest, _, text = line.partition("\t")
                assert hashlib.sha1(text.encode()).hexdigest() == digest
                entry = json.loads(text)
                name = hashlib.sha256(entry["key"].encode()).hexdigest()
                assert str(file).endswith(f"index-v5/{name[:2]}/{name[2:4]}/{name[4:]}")
                found.setdefault(entry["key"], []).append(entry)
    return found


def content(root: Path, sri: object) -> bytes:
    import base64

    digits = base64.b64decode(str(sri).removeprefix("sha512-")).hex()
    place = f"opt/web/cache/_cacache/content-v2/sha512/{digits[:2]}/{digits[2:4]}/{digits[4:]}"
    return (root / place).read_bytes()


def test_packages_are_found_by_digest_and_by_address(tmp_path: Path) -> None:
    root = made(tmp_path, PACKAGES)
    entries = index(root)
    for package in PACKAGES:
        (entry,) = entries[f"make-fetch-happen:request-cache:{REGISTRY}{package.path}"]
        assert entry["integrity"] == integrity(package.data)
        assert entry["size"] == len(package.data)
        assert content(root, entry["integrity"]) == package.data


def test_the_registry_is_answered_for(tmp_path: Path) -> None:
    root = made(tmp_path, PACKAGES)
    answers = index(root)[f"make-fetch-happen:request-cache:{REGISTRY}left"]
    assert len(answers) == 2  # whatever npm says that it accepts
    document = json.loads(content(root, answers[0]["integrity"]))
    assert list(document["versions"]) == ["1.0.0", "2.0.0"]
    assert document["versions"]["2.0.0"]["dist"] == {
        "tarball": f"{REGISTRY}left/-/left-2.0.0.tgz",
        "integrity": integrity(PACKAGES[1].data),
    }
    assert f"make-fetch-happen:request-cache:{REGISTRY}@corp%2fodd" in index(root)


def test_no_order_and_no_clock_decides_the_tree(tmp_path: Path) -> None:
    assert tree_digest(made(tmp_path / "a", PACKAGES)) == tree_digest(made(tmp_path / "b", PACKAGES[::-1]))


def test_wrong_bytes(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "x.tgz"
    root.mkdir()
    file.write_bytes(b"other")
    with pytest.raises(IntegrityError, match="has the SHA-512") as caught:
        npm_cache([source(PACKAGES[0])], [file], root, mount="/opt/web")
    assert caught.value.on == "pkg:npm/left@1.0.0"
    assert hashlib.sha512(PACKAGES[0].data).hexdigest() in str(caught.value)


def test_through_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    sources = [source(package) for package in PACKAGES]
    with pytest.raises(IntegrityError, match="does not have it"):
        materialise(store, TREE, sources, report=silent)
    for locked, package in zip(sources, PACKAGES, strict=True):
        store.remember(locked.identity, store.add_blob(package.data))
    digest = materialise(store, TREE, sources, report=silent)
    assert (store.tree_path(digest) / "opt/web/cache/_cacache/content-v2").is_dir()


def test_the_address_is_part_of_the_recipe(tmp_path: Path) -> None:
    package = PACKAGES[0]
    moved = Source.model_validate(
        {**source(package).model_dump(exclude_none=True, exclude={"path"}), "url": "https://h.test/l.tgz"}
    )
    assert recipe(TREE, [source(package)]) != recipe(TREE, [moved])
