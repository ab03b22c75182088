"""Mirrors at work: in the client, in fetching, and under the command line; and what offline says without them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockbuild.archive.canonical import canonical_chunks
from lockbuild.config import Config
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.fetch import Fetcher
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.model.lockfile import loads
from lockbuild.store import Store
from lockbuild.store.sources import has_source, source_blob
from lockbuild.transport.failures import NotFoundError, OfflineError, RefusedError, UnreachableError
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.http_server import Server, serving
from tests.support.tiny import TinyWorld, tiny_world

DATA = hashlib.shake_256(b"today's").digest(700_000)
STALE = hashlib.shake_256(b"yesterday's").digest(len(DATA))
SHA512 = hashlib.sha512(DATA).hexdigest()
CANONICAL = "https://files.canonical.test/pool"


class Bench:
    """A store and two mirrors of one canonical place, which does not exist."""

    def __init__(self, directory: Path, one: Server, two: Server) -> None:
        self.store = Store(directory / "store")
        self.one, self.two = one, two

    def config(self, *mirrors: dict[str, Any], **tables: Any) -> Config:
        both = {"prefix": CANONICAL, "to": [f"{self.one.url}/m", f"{self.two.url}/m"]}
        return Config.model_validate(
            {"network": {"retries": 0, "timeout": 3}, "mirrors": [*(mirrors or [both])], **tables}
        )

    def http(self, *mirrors: dict[str, Any], offline: bool = False) -> Http:
        return Http(self.config(*mirrors), offline=offline, first_wait=0.01)

    def fetch(
        self, *sources: Source, mirrors: tuple[dict[str, Any], ...] = (), offline: bool = False, **tables: Any
    ) -> None:
        config = self.config(*mirrors, **tables)
        with Http(config, offline=offline, first_wait=0.01) as http:
            Fetcher(self.store, http, config).fetch(sources)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as one, serving() as two:
        yield Bench(tmp_path, one, two)


def archive(**bound: Any) -> Source:
    return Source.model_validate(
        {
            "purl": "pkg:generic/sdk?download_url=x",
            "url": f"{CANONICAL}/sdk.tar",
            "trees": ["any:tools.sdk"],
            **(bound or {"sha256": str(Digest.of(DATA))}),
        }
    )


# The client


def test_the_client_asks_each_place_in_order(bench: Bench) -> None:
    bench.two.add("/m/a", b"a")
    with bench.http() as http:
        assert http.get(f"{CANONICAL}/a", limit=9) == b"a"
        assert http.size(f"{CANONICAL}/a") == 1
        assert http.slice(f"{CANONICAL}/a", 0, 1) == b"a"
        with http.stream(f"{CANONICAL}/a") as body:
            assert b"".join(body) == b"a"
        document = http.read(f"{CANONICAL}/a", limit=9, accept="text/plain")
        assert document.url == f"{bench.two.url}/m/a", "links are relative to where it came from"
    assert bench.one.paths() == ["/m/a"] * 4


def test_what_no_place_has_is_not_there(bench: Bench) -> None:
    with bench.http() as http, pytest.raises(NotFoundError) as caught:
        http.get(f"{CANONICAL}/a", limit=9)
    text = str(caught.value)
    assert f"{CANONICAL}/a: none of the places" in text
    assert f"{bench.one.url}/m/a: the server answers 404" in text
    assert f"{bench.two.url}/m/a: the server answers 404" in text


def test_a_place_that_refuses_is_told_beside_one_that_lacks_it(bench: Bench) -> None:
    bench.one.credentials = ("anna", "s3cret")
    with bench.http() as http, pytest.raises(RefusedError) as caught:
        http.get(f"{CANONICAL}/a", limit=9)
    assert "401" in str(caught.value)
    assert "404" in str(caught.value)
    assert "netrc" in str(caught.value.hint)


def test_wrong_bytes_of_one_place_are_passed_over_for_the_next(bench: Bench) -> None:
    bench.one.add("/m/a", b"old")
    bench.two.add("/m/a", b"new")

    def check(data: bytes) -> None:
        if data != b"new":
            raise IntegrityError("is not new")

    with bench.http() as http:
        assert http.get(f"{CANONICAL}/a", limit=9, check=check) == b"new"
        bench.two.add("/m/a", b"older")
        with pytest.raises(IntegrityError) as caught:
            http.get(f"{CANONICAL}/a", limit=9, check=check)
    assert str(caught.value).count("is not new") == 2


def test_who_does_not_answer_is_asked_last_from_then_on(bench: Bench) -> None:
    bench.two.add("/m/a", b"a")
    dead = {"prefix": CANONICAL, "to": ["http://127.0.0.1:9/m", f"{bench.two.url}/m"]}
    with bench.http(dead) as http:
        assert http.get(f"{CANONICAL}/a", limit=9) == b"a"
        began = time.monotonic()
        for _ in range(20):
            http.get(f"{CANONICAL}/a", limit=9)
        assert time.monotonic() - began < 8
        with pytest.raises(UnreachableError):
            http.get(f"{CANONICAL}/b", limit=9)


def test_a_local_mirror_needs_no_network(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "a").write_bytes(b"a")
    near = {"prefix": CANONICAL, "to": [f"{bench.one.url}/m", (tmp_path / "near").as_uri()]}
    with bench.http(near, offline=True) as http:
        assert http.get(f"{CANONICAL}/a", limit=9) == b"a"
        with pytest.raises(OfflineError):
            http.get(f"{CANONICAL}/b", limit=9)
    assert not bench.one.requests


# Fetching


def test_a_mirror_that_serves_yesterdays_bytes_is_passed_over(bench: Bench) -> None:
    bench.one.add("/m/sdk.tar", STALE)
    bench.two.add("/m/sdk.tar", DATA)
    source = archive()
    bench.fetch(source)
    assert bench.store.verified_blob(source_blob(bench.store, source)).read_bytes() == DATA


def test_wrong_bytes_everywhere_name_each_mirror_and_what_it_served(bench: Bench) -> None:
    bench.one.add("/m/sdk.tar", STALE)
    bench.two.add("/m/sdk.tar", DATA[:-1])
    with pytest.raises(IntegrityError) as caught:
        bench.fetch(archive(), mirrors=(
            {"prefix": CANONICAL, "to": [bench.one.url.replace("//", "//anna:s3cret@") + "/m", f"{bench.two.url}/m"]},
        ))  # fmt: skip
    text = str(caught.value)
    assert f"{bench.one.url}/m/sdk.tar: " in text
    assert str(Digest.of(STALE)) in text
    assert f"{bench.two.url}/m/sdk.tar: " in text
    assert str(Digest.of(DATA[:-1])) in text
    assert f"the lock says {Digest.of(DATA)}" in text
    assert "s3cret" not in text
    assert not has_source(bench.store, archive())


def test_by_digest_goes_first_whatever_the_original_place(bench: Bench) -> None:
    bench.two.add("/m/sdk.tar", DATA)
    bench.one.add(f"/cas/{Digest.of(DATA).hex}", DATA)
    cas = {"by-digest": f"{bench.one.url}/cas/{{sha256}}"}
    other = {"prefix": CANONICAL, "to": [f"{bench.two.url}/m"]}
    bench.fetch(archive(), mirrors=(other, cas))
    assert bench.one.paths() == [f"/cas/{Digest.of(DATA).hex}"]
    assert not bench.two.requests


def test_what_is_not_kept_by_digest_comes_from_its_place(bench: Bench) -> None:
    bench.two.add("/m/sdk.tar", DATA)
    bench.one.add(f"/cas/{Digest.of(DATA).hex}", STALE)
    other = {"prefix": CANONICAL, "to": [f"{bench.two.url}/m"]}
    bench.fetch(archive(), mirrors=({"by-digest": f"{bench.one.url}/cas/{{sha256}}"}, other))
    assert has_source(bench.store, archive())


def test_debian_packages_and_their_mirrors_have_mirrors_too(bench: Bench) -> None:
    bench.two.add("/m/pool/a.deb", DATA)
    source = Source(
        purl="pkg:deb/debian/a@1?arch=all&distro=forky",
        path="pool/a.deb",
        sha256=Digest.of(DATA),
        trees=["x"],
    )
    bench.fetch(source, debian={"mirrors": [f"{CANONICAL}/"], "snapshot": "file:///nowhere"})
    assert has_source(bench.store, source)


# What a SHA-512 binds


def test_a_sha512_is_checked_and_the_sha256_remembered(bench: Bench) -> None:
    bench.one.add("/m/sdk.tar", STALE)
    bench.two.add("/m/sdk.tar", DATA)
    source = archive(sha512=SHA512)
    bench.fetch(source)
    assert bench.store.recall(source.identity) == Digest.of(DATA)
    assert source_blob(bench.store, source) == Digest.of(DATA)
    bench.one.requests.clear()
    bench.fetch(source)
    assert not bench.one.requests, "what is there is not asked for"
    assert bench.store.verify() == []


def test_a_wrong_sha512_is_told_with_both(bench: Bench) -> None:
    bench.one.add("/m/sdk.tar", STALE)
    with pytest.raises(IntegrityError) as caught:
        bench.fetch(archive(sha512=SHA512), mirrors=({"prefix": CANONICAL, "to": [f"{bench.one.url}/m"]},))
    assert f"sha512:{hashlib.sha512(STALE).hexdigest()}" in str(caught.value)
    assert f"the lock says sha512:{SHA512}" in str(caught.value)


@pytest.mark.parametrize(
    "bound",
    [
        {"sha512": SHA512, "sha256": str(Digest.of(STALE))},
        {"sha512": hashlib.sha512(STALE).hexdigest(), "sha256": str(Digest.of(DATA))},
    ],
)
def test_where_both_are_known_both_are_checked(bench: Bench, bound: dict[str, str]) -> None:
    bench.one.add("/m/sdk.tar", DATA)
    bench.two.add("/m/sdk.tar", STALE)
    source = archive(**bound)
    with pytest.raises(IntegrityError):
        bench.fetch(source)
    assert not has_source(bench.store, source)
    assert bench.store.recall(source.identity) is None


def test_a_download_bound_by_sha512_is_gone_on_with(bench: Bench) -> None:
    bench.one.add("/m/sdk.tar", DATA)
    bench.one.script["/m/sdk.tar"] = [serve.truncate(300_000), serve.status(500)]
    source = archive(sha512=SHA512)
    only = ({"prefix": CANONICAL, "to": [f"{bench.one.url}/m"]},)
    with pytest.raises(FetchError):
        bench.fetch(source, mirrors=only)
    bench.one.requests.clear()
    bench.fetch(source, mirrors=only)
    assert [request.headers.get("range") for request in bench.one.requests] == ["bytes=300000-"]
    assert source_blob(bench.store, source) == Digest.of(DATA)


def test_a_sha512_has_mirrors_by_digest(bench: Bench) -> None:
    bench.one.add(f"/cas/{SHA512}", DATA)
    cas = (
        {"by-digest": f"{bench.two.url}/only/{{sha256}}"},
        {"by-digest": f"{bench.one.url}/cas/{{sha512}}"},
    )
    bench.fetch(archive(sha512=SHA512), mirrors=cas)
    assert not bench.two.requests, "its SHA-256 is not known"


@pytest.mark.parametrize(
    ("purl", "path"),
    [
        ("pkg:npm/left-pad@1.3.0", "left-pad/-/left-pad-1.3.0.tgz"),
        ("pkg:npm/%40scope/name@1.0.0", "@scope/name/-/name-1.0.0.tgz"),
    ],
)
def test_packages_of_npm_come_from_the_registry(bench: Bench, purl: str, path: str) -> None:
    bench.one.add(f"/npm/{path}", DATA)
    source = Source(purl=purl, path=path, sha512=SHA512, trees=["any:tools.x"])
    bench.fetch(source, npm={"registry": f"{bench.one.url}/npm/"})
    assert has_source(bench.store, source)
    assert bench.one.paths() == [f"/npm/{path}"]


# Offline


def test_offline_names_everything_that_is_missing_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # whatever would be run to find out would take too long
    sources = [
        archive(),
        archive(sha512=SHA512),
        Source(purl="pkg:npm/a@1", path="a/-/a-1.tgz", sha512=SHA512[::-1], trees=["any:tools.x"]),
        Source(
            purl="pkg:github/team/sdk@" + "a" * 40,
            url=f"{CANONICAL}/sdk.git",
            commit="a" * 40,
            trees=["any:tools.x"],
        ),
        Source(purl="pkg:deb/debian/a@1?arch=all", path="pool/a.deb", sha256=Digest.of(STALE), trees=["x"]),
    ]
    began = time.process_time()
    with pytest.raises(OfflineError) as caught:
        bench.fetch(
            *sources,
            offline=True,
            mirrors=(
                {"prefix": CANONICAL, "to": [f"{bench.one.url.replace('//', '//u:s3cret@')}/m"]},
                {"by-digest": f"{bench.two.url}/cas/{{sha256}}"},
            ),
            debian={"mirrors": ["http://deb.test"], "snapshot": "http://old.test"},
            npm={"registry": "https://npm.test"},
        )
    assert time.process_time() - began < 1
    text = str(caught.value)
    assert "5 sources are not in the store" in text
    assert f"would come from {bench.two.url}/cas/{{sha256}} or {bench.one.url}/m/sdk.tar" in text
    assert f"{bench.one.url}/m/sdk.git: commit {'a' * 40}" in text
    assert "would come from an npm registry: a/-/a-1.tgz" in text
    assert f"{bench.two.url}/cas/{{sha256}} or a Debian mirror: pool/a.deb" in text
    assert "s3cret" not in text
    assert not bench.one.requests
    assert not bench.two.requests


# The command line


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    with tiny_world(tmp_path) as made:
        yield made


def configure(world: TinyWorld, text: str) -> None:
    file = world.directory / "config.toml"
    file.write_text(file.read_text() + text)


def test_a_whole_project_through_mirrors_gives_the_same_lock(world: TinyWorld) -> None:
    """The configuration says where bytes come from and never changes a lock."""
    world.run("lock")
    plain = (world.project / "lockbuild.lock").read_bytes()
    (world.project / "lockbuild.lock").unlink()
    config = world.directory / "config.toml"
    config.write_text(
        config.read_text().replace(f"{world.server.url}/debian", "https://deb.canonical.test/debian")
    )
    configure(
        world,
        f'[[mirrors]]\nprefix = "https://deb.canonical.test"\n'
        f'to = ["http://127.0.0.1:9/nobody", "{world.server.url}"]\n',
    )
    world.run("lock")
    assert (world.project / "lockbuild.lock").read_bytes() == plain
    world.run("sync")


def test_a_mirror_with_damaged_indexes_is_passed_over(world: TinyWorld) -> None:
    world.run("lock")
    plain = (world.project / "lockbuild.lock").read_bytes()
    (world.project / "lockbuild.lock").unlink()
    with serving() as damaged:
        for path, data in world.server.files.items():
            damaged.add(path, data[:-1] + b"?" if "Packages" in path or "by-hash" in path else data)
        configure(
            world,
            f'[[mirrors]]\nprefix = "{world.server.url}"\nto = ["{damaged.url}", "{world.server.url}"]\n',
        )
        world.run("lock", store=world.directory / "second")
        assert any("Packages" in path or "by-hash" in path for path in damaged.paths())
    assert (world.project / "lockbuild.lock").read_bytes() == plain


def sdk_tar() -> bytes:
    """The same each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("sdk-1/bin/hello")
        member.size = 3
        member.mode = 0o755
        tar.addfile(member, io.BytesIO(b"hi\n"))
    return out.getvalue()


def test_a_store_that_is_lost_comes_back_by_digest_alone(world: TinyWorld, tmp_path: Path) -> None:
    data = sdk_tar()
    (tmp_path / "sdk.tar").write_bytes(data)
    toolchain = world.project / "toolchain.toml"
    toolchain.write_text(
        toolchain.read_text()
        + f'\n[tools.sdk]\nfrom = "archive"\nurl = "{CANONICAL}/sdk.tar"\nsha256 = "{Digest.of(data).hex}"\n'
    )
    configure(world, f'[[mirrors]]\nprefix = "{CANONICAL}"\nto = ["{tmp_path.as_uri()}"]\n')
    world.run("lock", "--materialise")
    lock = tomllib.loads((world.project / "lockbuild.lock").read_text())

    cas = tmp_path / "cas"
    cas.mkdir()
    for source in lock["sources"]:
        name = source["sha256"].removeprefix("sha256:")
        (cas / name).write_bytes((world.store / "blobs" / "sha256" / name).read_bytes())
    config = world.directory / "config.toml"
    config.write_text(
        f'[debian]\nmirrors = ["https://deb.canonical.test"]\nsnapshot = "https://old.test"\n'
        f'[[mirrors]]\nby-digest = "{cas.as_uri()}/{{sha256}}"\n'
    )
    world.run("sync", "--offline", store=tmp_path / "second")
    (cas / Digest.of(data).hex).unlink()
    failed = world.run("sync", "--offline", store=tmp_path / "third", status=4)
    assert "1 source is not in the store" in failed.err
    assert f"would come from {cas.as_uri()}/{{sha256}} or {CANONICAL}/sdk.tar" in failed.err


# Derived trees


@dataclass
class Derived:
    """A world whose lock records a derived tree, one that does not, and the canonical tar of that tree."""

    world: TinyWorld
    plain: str
    digest: Digest
    tar: bytes

    def sync(self, *mirrors: str, store: Path, offline: bool = False) -> tuple[list[str], str]:
        """What a sync with an empty store makes with these mirrors by digest, and what it says."""
        tables = "".join(f'[[mirrors]]\nby-digest = "{mirror}"\n' for mirror in mirrors)
        self.world.config.write_text(self.plain + tables)
        log = self.world.project / ".lockbuild/logs/derive.words.log"
        log.unlink(missing_ok=True)
        result = self.world.run("sync", "--json", *(["--offline"] if offline else []), store=store)
        assert Store(store).has_tree(self.digest)
        assert log.exists() == ("derive.words" in result.value["made"]), "a log says that its steps ran"
        return result.value["made"], result.err


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Derived]:
    directory = tmp_path_factory.mktemp("derived")
    with tiny_world(directory) as world:
        world.run("lock")
        (directory / "unmaterialised.lock").write_bytes((world.project / "lockbuild.lock").read_bytes())
        world.run("lock", "--materialise")
        lock = loads((world.project / "lockbuild.lock").read_text(), "lockbuild.lock")
        (digest,) = [tree.digest for tree in lock.trees if tree.unpack == "derive"]
        assert digest is not None
        tar = b"".join(map(bytes, canonical_chunks(Store(world.store).tree_path(digest))))
        assert Digest.of(tar) == digest
        yield Derived(world, world.config.read_text(), digest, tar)


def test_a_derived_tree_comes_from_the_first_mirror_that_has_it(derived: Derived, tmp_path: Path) -> None:
    with serving() as one, serving() as two:
        two.add(f"/by/{derived.digest.hex}", derived.tar)
        two.script[f"/by/{derived.digest.hex}"] = [serve.truncate(1000)]
        mirrors = (f"{one.url}/by/{{sha256}}", f"{one.url}/{{sha512}}", f"{two.url}/by/{{sha256}}")
        made, said = derived.sync(*mirrors, store=tmp_path / "store")
        assert made == ["base"]
        assert "passed over" not in said
        tree = f"/by/{derived.digest.hex}"
        assert one.paths().count(tree) == 1
        assert [request.headers.get("range") for request in two.requests if request.path == tree] == [
            None,
            "bytes=1000-",
        ]
        one.requests.clear()
        two.requests.clear()
        assert derived.sync(*mirrors, store=tmp_path / "store")[0] == []
        assert one.requests + two.requests == []


def test_what_no_mirror_has_is_derived(derived: Derived, tmp_path: Path) -> None:
    with serving() as one, serving() as two:
        made, said = derived.sync(f"{one.url}/{{sha256}}", f"{two.url}/{{sha256}}", store=tmp_path / "store")
        assert made == ["base", "derive.words"]
        assert "passed over" not in said
        for server in (one, two):
            assert server.paths().count(f"/{derived.digest.hex}") == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda tar: other_tree(),
        lambda tar: tar[:-1] + b"?",
        lambda tar: tar[:-512],
        lambda tar: tar + tar,
        lambda tar: b"<html>not found</html>",
        lambda tar: b"",
    ],
    ids=["another tree", "damaged", "cut short", "more", "a page", "nothing"],
)
def test_wrong_bytes_of_a_derived_tree_only_cost_time(
    derived: Derived, tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    with serving() as server:
        place = server.add(f"/{derived.digest.hex}", harm(derived.tar))
        made, said = derived.sync(f"{server.url}/{{sha256}}", store=tmp_path / "store")
        assert place.endswith(derived.digest.hex)
        assert made == ["base", "derive.words"]
        assert said.count("is passed over: derive.words: what it has for derive.words is something else") == 1
        assert f"the mirror {server.url}/{{sha256}}" in said


def other_tree() -> bytes:
    """A whole canonical tar, of nothing."""
    return bytes(1024)


def test_a_mirror_that_refuses_or_does_not_answer_only_costs_time(derived: Derived, tmp_path: Path) -> None:
    with serving() as server:
        server.credentials = ("anna", "s3cret")
        silent = "http://127.0.0.1:9"
        made, said = derived.sync(
            f"{server.url}/{{sha256}}", f"{silent}/{{sha256}}", store=tmp_path / "store"
        )
        assert made == ["base", "derive.words"]
        assert f"the mirror {server.url}/{{sha256}} is passed over: derive.words: " in said
        assert f"the mirror {silent}/{{sha256}} is passed over: derive.words: " in said


def test_offline_a_derived_tree_comes_from_files_only(derived: Derived, tmp_path: Path) -> None:
    store = tmp_path / "store"
    derived.sync(store=store)
    with serving() as server:
        server.add(f"/{derived.digest.hex}", derived.tar)
        asked = f"{server.url}/{{sha256}}"
        shutil.rmtree(Store(store).tree_path(derived.digest))
        made, said = derived.sync(asked, store=store, offline=True)
        assert made == ["derive.words"]
        assert "passed over" not in said
        (tmp_path / "by").mkdir()
        (tmp_path / "by" / derived.digest.hex).write_bytes(derived.tar)
        shutil.rmtree(Store(store).tree_path(derived.digest))
        made, said = derived.sync(
            asked, f"{(tmp_path / 'by').as_uri()}/{{sha256}}", store=store, offline=True
        )
        assert made == []
        assert server.requests == []


def test_a_lock_without_digests_asks_no_mirror_for_trees(derived: Derived, tmp_path: Path) -> None:
    """Nothing says which tree it should be."""
    world = derived.world.fork(tmp_path)
    shutil.copy(derived.world.directory / "unmaterialised.lock", world.project / "lockbuild.lock")
    with serving() as server:
        server.add(f"/{derived.digest.hex}", derived.tar)
        resolved = Derived(world, derived.plain, derived.digest, derived.tar)
        made, _ = resolved.sync(f"{server.url}/{{sha256}}", store=tmp_path / "store")
        assert made == ["base", "derive.words"]
        assert f"/{derived.digest.hex}" not in server.paths()


def npm_package() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in (
            ("package/package.json", b'{"name": "a", "version": "1.0.0"}'),
            ("package/index.js", b""),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_materialising_writes_the_sha256_of_what_a_sha512_binds(world: TinyWorld, tmp_path: Path) -> None:
    data = npm_package()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    with serving() as registry:
        registry.add("/npm/a/-/a-1.0.0.tgz", data)
        configure(world, f'[npm]\nregistry = "{registry.url}/npm/"\n')
        toolchain = world.project / "toolchain.toml"
        toolchain.write_text(
            toolchain.read_text() + '\n[tools.packages]\nfrom = "npm"\nlockfile = "package-lock.json"\n'
        )
        packages = {"node_modules/a": {"version": "1.0.0", "integrity": integrity}}
        (world.project / "package-lock.json").write_text(
            json.dumps({"lockfileVersion": 3, "packages": packages})
        )

        def source() -> dict[str, Any]:
            lock = tomllib.loads((world.project / "lockbuild.lock").read_text())
            (found,) = (source for source in lock["sources"] if source["purl"] == "pkg:npm/a@1.0.0")
            return dict(found)

        world.run("lock")
        assert "sha256" not in source()
        world.run("sync")
        world.run("store", "gc")
        assert (world.store / "blobs" / "sha256" / Digest.of(data).hex).exists(), "the lock needs it"

        began = time.monotonic()
        failed = world.run("sync", "--offline", store=tmp_path / "third", status=4)
        assert time.monotonic() - began < 20
        assert "would come from an npm registry: a/-/a-1.0.0.tgz" in failed.err
        assert "pool/main/b/busybox/busybox_1.0_" in failed.err

        world.run("lock", "--materialise")
        assert source()["sha256"] == str(Digest.of(data))
        world.run("lock", "--check")
        registry.requests.clear()
        world.run("sync", store=tmp_path / "second")
        assert registry.paths() == ["/npm/a/-/a-1.0.0.tgz"]
        registry.add("/npm/a/-/a-1.0.0.tgz", data + b"?")
        wrong = world.run("sync", store=tmp_path / "fourth", status=5)
        assert f"{registry.url}/npm/a/-/a-1.0.0.tgz" in wrong.err
        assert f"the lock says {Digest.of(data)} and sha512:{hashlib.sha512(data).hexdigest()}" in wrong.err


def test_the_configuration_is_shown_with_its_origins(world: TinyWorld) -> None:
    configure(
        world,
        '[[mirrors]]\nprefix = "https://a.test"\nto = ["https://u:s3cret@m.test"]\n'
        '[[hosts]]\nhost = "m.test"\ntoken-env = "CORP_TOKEN"\n',
    )
    environ = {
        "CORP_TOKEN": "t0ken",
        "https_proxy": "paul:pa55@proxy.test:3128",
        "PIP_INDEX_URL": "https://me:pa55@index.test/simple",
    }
    result = world.run("config", "show", "--json", environ=environ)
    assert result.value["path"] == str(world.directory / "config.toml")
    assert result.value["exists"] is True
    found = {item["key"]: (item["value"], item["origin"]) for item in result.value["settings"]}
    assert found["debian.mirrors"] == ([f"{world.server.url}/debian"], "file")
    assert found["network.retries"] == (0, "file")
    assert found["network.timeout"] == (30.0, "default")
    assert found["pypi.indexes"][0][0] == "https://index.test/simple"
    assert found["pypi.indexes"][1] == "pip"
    assert found["npm.registry"][1] == "npm"
    assert found["mirrors[0].to"] == (["https://m.test"], "file")
    assert found["hosts[0].token-env"] == ("CORP_TOKEN", "file")
    assert found["CORP_TOKEN"] == ("***", "environment")
    assert found["https_proxy"] == ("proxy.test:3128", "environment")
    text = world.run("config", "show", environ=environ).out
    for secret in ("s3cret", "t0ken", "pa55", "paul"):
        assert secret not in text + result.out
    assert "https_proxy" in text
    assert world.run("config", "path").out == f"{world.directory / 'config.toml'}\n"
    absent = world.run("config", "path", "--json", environ={"LOCKBUILD_CONFIG": "/nowhere/c.toml"})
    assert absent.value == {"path": "/nowhere/c.toml", "exists": False}
    world.run("config", "show", environ={"LOCKBUILD_CONFIG": "/nowhere/c.toml"}, status=2)
