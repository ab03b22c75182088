from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.compose import compose
from lockbuild.environment.materialise import UNPACKERS, materialise, recipe
from lockbuild.errors import IntegrityError, ResolveError, UsageError
from lockbuild.events import Event, Finished, Started, silent
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.store import Store
from tests.support.debs import file, write_deb
from tests.support.wheels import write_wheel

AMD64 = Platform.parse("linux/amd64")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def tree(name: str, unpack: str, mount: str, **more: Any) -> LockedTree:
    return LockedTree.model_validate(
        {"name": name, "platform": "linux/amd64", "unpack": unpack, "mount": mount, **more}
    )


def add(store: Store, path: Path, of: LockedTree) -> Source:
    return Source(
        purl=f"pkg:generic/{path.name}",
        url=f"https://example.test/{path.name}",
        sha256=store.add_file(path),
        trees=[of.id],
    )


def tarball(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_each_kind_is_rooted_where_the_environment_wants_it(store: Store, tmp_path: Path) -> None:
    base = tree("base", "debian-root", "/")
    deb = add(store, write_deb(tmp_path / "p.deb", [file("./usr/bin/p")]), base)
    assert (store.tree_path(materialise(store, base, [deb], report=silent)) / "usr/bin/p").is_file()

    tool = tree("tools.tool", "wheels", "/opt/tool")
    wheel = add(store, write_wheel(tmp_path, {"a.py": ""}), tool)
    assert (
        store.tree_path(materialise(store, tool, [wheel], report=silent)) / "opt/tool/lib/python/a.py"
    ).is_file()

    packed = tree("tools.x", "archive", "/opt/deep/x", strip=1)
    archive = add(store, tarball(tmp_path / "x.tar.gz", {"x-1/bin/x": "x", "x-1/README": ""}), packed)
    root = store.tree_path(materialise(store, packed, [archive], report=silent))
    assert names(root) == ["opt/deep/x/README", "opt/deep/x/bin/x"]

    source = tree("sources.x", "archive", "/build/sources/x", strip=1, platform="any")
    root = store.tree_path(materialise(store, source, [archive], report=silent))
    assert names(root) == ["README", "bin/x"]


def test_a_tree_is_made_once_for_a_recipe(store: Store, tmp_path: Path) -> None:
    packed = tree("tools.x", "archive", "/opt/x")
    source = add(store, tarball(tmp_path / "x.tar.gz", {"a": "a"}), packed)
    events: list[Event] = []
    first = materialise(store, packed, [source], report=events.append)
    assert [type(event) for event in events] == [Started, Finished]
    assert store.recall(recipe(packed, [source])) == first
    store.blob_path(source.sha256).unlink()  # it is not even needed
    assert materialise(store, packed, [source], report=events.append) == first
    assert len(events) == 2


def test_a_recorded_digest_binds(store: Store, tmp_path: Path) -> None:
    packed = tree("tools.x", "archive", "/opt/x")
    source = add(store, tarball(tmp_path / "x.tar.gz", {"a": "a"}), packed)
    wrong = Digest.of(b"other")
    bound = packed.model_copy(update={"digest": wrong})
    for _ in ("made", "remembered"):
        with pytest.raises(IntegrityError) as error:
            materialise(store, bound, [source], report=silent)
        made = materialise(store, packed, [source], report=silent)
        assert str(wrong) in str(error.value)
        assert str(made) in str(error.value)
    right = packed.model_copy(update={"digest": made})
    assert materialise(store, right, [source], report=silent) == made


def test_a_damaged_source_is_found_before_it_is_used(store: Store, tmp_path: Path) -> None:
    packed = tree("tools.x", "archive", "/opt/x")
    source = add(store, tarball(tmp_path / "x.tar.gz", {"a": "a"}), packed)
    blob = store.blob_path(source.sha256)
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    with pytest.raises(IntegrityError, match="damaged"):
        materialise(store, packed, [source], report=silent)
    assert store.recall(recipe(packed, [source])) is None


def test_nothing_is_kept_of_a_tree_that_cannot_be_made(store: Store, tmp_path: Path) -> None:
    base = tree("base", "debian-root", "/")
    debs = [write_deb(tmp_path / f"{name}.deb", [file("./x", name)]) for name in ("one", "two")]
    sources = [add(store, deb, base) for deb in debs]
    with pytest.raises(ResolveError, match="/x is in both"):
        materialise(store, base, sources, report=silent)
    assert store.recall(recipe(base, sources)) is None
    assert store.stats().trees == 0
    assert list((store.root / "tmp").iterdir()) == []


def test_kinds_that_the_workflow_makes_are_said_to_be_so(store: Store) -> None:
    for kind in ("path", "derive"):
        assert kind not in UNPACKERS
        with pytest.raises(UsageError, match=kind):
            materialise(store, tree("x", kind, "/opt/x"), [], report=silent)


def test_everything_that_decides_a_tree_decides_its_recipe(store: Store, tmp_path: Path) -> None:
    packed = tree("tools.x", "archive", "/opt/x", strip=1)
    one = add(store, tarball(tmp_path / "1.tar.gz", {"a": "a"}), packed)
    two = add(store, tarball(tmp_path / "2.tar.gz", {"a": "b"}), packed)
    known = recipe(packed, [one, two])
    changed = [
        recipe(packed, [two, one]),
        recipe(packed, [one]),
        recipe(packed.model_copy(update={"strip": 2}), [one, two]),
        recipe(packed.model_copy(update={"mount": "/opt/y"}), [one, two]),
        recipe(packed.model_copy(update={"unpack": "wheels"}), [one, two]),
        recipe(packed.model_copy(update={"platform": Platform.parse("linux/arm64")}), [one, two]),
    ]
    assert len({known, *changed}) == 7
    same = packed.model_copy(update={"name": "tools.y", "exports": {"A": "b"}, "digest": known})
    moved = one.model_copy(update={"url": "https://elsewhere.test/1.tar.gz", "trees": []})
    assert recipe(same, [moved, two]) == known


def test_several_trees_at_once(store: Store, tmp_path: Path) -> None:
    packed = tree("tools.x", "archive", "/opt/x")
    sources = [add(store, tarball(tmp_path / f"{n}.tar.gz", {"a": str(n % 3)}), packed) for n in range(9)]
    with ThreadPoolExecutor(6) as pool:
        digests = list(pool.map(lambda source: materialise(store, packed, [source], report=silent), sources))
    assert len(set(digests)) == 3
    assert all(tree_digest(store.tree_path(digest)) == digest for digest in digests)


def test_an_environment_has_the_trees_in_order_and_the_same_variables_for_everyone(
    store: Store, tmp_path: Path
) -> None:
    base = tree("base", "debian-root", "/", exports={"FROM_BASE": "1"})
    with_bin = tree("tools.a", "archive", "/opt/a", exports={"A_HOME": "$OUT", "B": "${OUT}/x$OUTER"})
    without = tree("tools.b", "archive", "/opt/b", exports={"LANG": "C", "PATH": "$OUT/libexec"})
    deb = add(store, write_deb(tmp_path / "p.deb", [file("./bin/p")]), base)
    one = add(store, tarball(tmp_path / "a.tar.gz", {"bin/a": ""}), with_bin)
    two = add(store, tarball(tmp_path / "b.tar.gz", {"libexec/b": ""}), without)
    trees = [
        (locked, materialise(store, locked, [source], report=silent))
        for locked, source in ((base, deb), (with_bin, one), (without, two))
    ]
    environment = compose(store, AMD64, trees)
    assert [mounted.mount for mounted in environment.trees] == ["/", "/opt/a", "/opt/b"]
    assert [mounted.digest for mounted in environment.trees] == [digest for _, digest in trees]
    assert all(mounted.root == store.tree_path(mounted.digest) for mounted in environment.trees)
    assert environment.variables == {
        "A_HOME": "/opt/a",
        "B": "/opt/a/x$OUTER",
        "FROM_BASE": "1",
        "HOME": "/build/home",
        "LANG": "C",
        "LC_ALL": "C.UTF-8",
        "PATH": "/opt/b/libexec:/opt/a/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": "315532800",
        "TZ": "UTC",
    }
    assert list(environment.variables) == sorted(environment.variables)


@pytest.mark.parametrize("link", ["real", "/opt/lb-a/real"])
def test_a_link_leads_where_it_does_in_the_environment(store: Store, link: str) -> None:
    """An absolute one leads nowhere on this machine: PATH and input digest would depend on that."""
    with store.new_tree() as staged:
        (staged.path / "opt/lb-a/real").mkdir(parents=True)
        (staged.path / "opt/lb-a/bin").symlink_to(link)
        digest = staged.commit()
    environment = compose(store, AMD64, [(tree("derive.a", "derive", "/opt/lb-a"), digest)])
    assert environment.variables["PATH"].startswith("/opt/lb-a/bin:")


def test_a_link_to_a_directory_of_the_host_is_no_bin(store: Store) -> None:
    with store.new_tree() as staged:
        (staged.path / "opt/lb-a").mkdir(parents=True)
        (staged.path / "opt/lb-a/bin").symlink_to("/usr/bin")
        digest = staged.commit()
    environment = compose(store, AMD64, [(tree("derive.a", "derive", "/opt/lb-a"), digest)])
    assert "/opt/lb-a/bin" not in environment.variables["PATH"]


@pytest.mark.parametrize("link", ["opt/a", "opt"])
def test_a_tree_whose_mount_is_a_link_is_refused(store: Store, tmp_path: Path, link: str) -> None:
    with store.new_tree() as staged:
        (staged.path / link).parent.mkdir(exist_ok=True)
        (staged.path / link).symlink_to(tmp_path)
        digest = staged.commit()
    with pytest.raises(IntegrityError, match="has no directory /opt/a, or a link leads there") as caught:
        compose(store, AMD64, [(tree("derive.a", "derive", "/opt/a"), digest)])
    assert caught.value.on == "derive.a"


def test_exports_of_several_trees(store: Store, tmp_path: Path) -> None:
    def composed(**second: str) -> dict[str, str]:
        one = tree("tools.a", "archive", "/opt/a", exports={"PYTHONPATH": "$OUT/lib", "MODE": "x"})
        two = tree("tools.b", "archive", "/opt/b", exports=second)
        made = []
        for locked in (one, two):
            source = add(store, tarball(tmp_path / "a.tar.gz", {"a": locked.name}), locked)
            made.append((locked, materialise(store, locked, [source], report=silent)))
        return compose(store, AMD64, made).variables

    assert composed(PYTHONPATH="$OUT/lib")["PYTHONPATH"] == "/opt/a/lib:/opt/b/lib"
    assert composed(MODE="x")["MODE"] == "x"
    with pytest.raises(UsageError, match="tools.a and tools.b export it with different values") as error:
        composed(MODE="y")
    assert error.value.on == "tools.b: variable MODE"


def test_an_environment_of_a_tree_that_is_not_there(store: Store) -> None:
    with pytest.raises(IntegrityError):
        compose(store, AMD64, [(tree("base", "debian-root", "/"), Digest.of(b""))])
