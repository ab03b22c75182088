"""Locking against a signed archive on the loopback interface that serves well, or lies."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config
from lockbuild.errors import FetchError, IntegrityError, ResolveError
from lockbuild.events import Event, Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianBase
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.failures import OfflineError
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.debian_archive import DebianArchive, SigningKey, signing_key
from tests.support.http_server import Server, serving

AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64")
NOW = datetime.now(UTC)
PACKAGES = "dists/forky/main/binary-amd64/Packages"


@pytest.fixture(scope="module")
def key() -> Iterator[SigningKey]:
    with signing_key() as made:
        yield made


@pytest.fixture(scope="module")
def template(key: SigningKey, tmp_path_factory: pytest.TempPathFactory) -> DebianArchive:
    archive = DebianArchive(key, tmp_path_factory.mktemp("packages"))
    archive.add("base-files", "14", essential="yes", pre_depends="awk", architecture="amd64")
    archive.add("base-files", "14", essential="yes", pre_depends="awk", architecture="arm64")
    archive.add("mawk", "1.3", provides="awk", priority="required")
    archive.add("gawk", "1:5.3", provides="awk", priority="optional")
    archive.add("libc6", "2.43-7", architecture="amd64", multi_arch="same")
    archive.add("libc6", "2.43-7", architecture="arm64", multi_arch="same")
    archive.add("libstdc++6", "15.2~rc1+b1", architecture="amd64", depends="libc6 (>= 2.38)")
    archive.add("libstdc++6", "15.2~rc1+b1", architecture="arm64", depends="libc6 (>= 2.38)")
    archive.add("tool", "2:1.0-1", depends="libstdc++6 (>= 15) | other, python3:any", recommends="gawk")
    archive.add("python3", "3.14.1-1", architecture="amd64", multi_arch="allowed", depends="libc6")
    archive.add("python3", "3.14.1-1", architecture="arm64", multi_arch="allowed", depends="libc6")
    archive.add("broken", depends="tool (>= 3:0)")
    archive.add("hungry", depends="broken | absent, tool")
    archive.add("jealous", conflicts="python3")
    return archive


class Bench:
    """An archive on a server, a store, and the means to lock."""

    def __init__(self, archive: DebianArchive, server: Server, directory: Path) -> None:
        self.archive = archive
        self.server = server
        self.directory = directory
        self.store = Store(directory / "store")
        self.events: list[Event] = []
        self.mirrors = [f"{server.url}/debian"]
        self.debian: dict[str, Any] = {"keyring": str(archive.key.keyring), "allow-expired": False}
        archive.publish()
        archive.upload(server)

    def context(self, *, offline: bool = False, **changes: Any) -> ResolveContext:
        debian = {"mirrors": self.mirrors, **self.debian}
        config = Config.model_validate({"debian": debian, "network": {"retries": 1, "timeout": 5}})
        http = Http(config, offline=offline, first_wait=0.01)
        context = ResolveContext(http, config, self.store, NOW, self.directory, report=self.events.append)
        return replace(context, **changes)

    def lock(
        self,
        *packages: str,
        suite: str = "forky",
        platforms: tuple[Platform, ...] = (AMD64,),
        context: ResolveContext | None = None,
        **request: Any,
    ) -> Resolution:
        wanted = DebianBase(suite=suite, packages=list(packages), **request)
        return resolve("base", wanted, platforms, context or self.context())

    def publish(self, **options: Any) -> None:
        self.archive.publish(**options)
        self.archive.upload(self.server)

    def put(self, path: str, data: bytes) -> None:
        self.server.files[f"/debian/{path}"] = data

    def take(self, path: str) -> bytes:
        return self.server.files[f"/debian/{path}"]

    def without_by_hash(self) -> None:
        for path in [path for path in self.server.files if "/by-hash/" in path]:
            del self.server.files[path]

    def replace_everywhere(self, path: str, data: bytes) -> None:
        """Serve ``data`` as the file at ``path``, by its name and by its hash."""
        digest = Digest.of(self.take(path)).hex
        self.put(f"{path.rpartition('/')[0]}/by-hash/SHA256/{digest}", data)
        self.put(path, data)

    @property
    def warnings(self) -> list[str]:
        return [
            event.message for event in self.events if isinstance(event, Note) and event.level == "warning"
        ]


@pytest.fixture
def bench(template: DebianArchive, tmp_path: Path) -> Iterator[Bench]:
    archive = DebianArchive(template.key, tmp_path)
    archive.files = dict(template.files)
    archive._stanzas = {place: list(stanzas) for place, stanzas in template._stanzas.items()}
    with serving() as server:
        yield Bench(archive, server, tmp_path)


def names(resolution: Resolution) -> list[str]:
    return [source.purl.removeprefix("pkg:deb/debian/").partition("@")[0] for source in resolution.sources]


def test_locks_the_closure(bench: Bench) -> None:
    resolution = bench.lock("tool")
    assert names(resolution) == ["base-files", "libc6", "libstdc%2B%2B6", "mawk", "python3", "tool"]
    (tree,) = resolution.trees
    assert (tree.name, tree.platform, tree.unpack, tree.mount) == ("base", AMD64, "debian-root", "/")
    by_name = dict(zip(names(resolution), resolution.sources, strict=True))
    data = bench.archive.files["pool/main/t/tool/tool_1.0-1_all.deb"]
    assert by_name["tool"] == Source(
        purl="pkg:deb/debian/tool@2:1.0-1?arch=all&distro=forky",
        path="pool/main/t/tool/tool_1.0-1_all.deb",
        size=len(data),
        sha256=Digest.of(data),
        trees=["linux/amd64:base"],
    )
    assert by_name["libstdc%2B%2B6"].purl == (
        "pkg:deb/debian/libstdc%2B%2B6@15.2~rc1%2Bb1?arch=amd64&distro=forky"
    )
    (suite,) = resolution.suites
    assert (suite.name, suite.codename, suite.expired, suite.snapshot) == ("forky", "forky", None, None)
    assert suite.inrelease == Digest.of(bench.take("dists/forky/InRelease"))
    assert suite.date < (suite.valid_until or "")
    assert bench.warnings == []


def test_platforms_share_what_is_for_all(bench: Bench) -> None:
    resolution = bench.lock("tool", platforms=(AMD64, ARM64))
    assert [tree.id for tree in resolution.trees] == ["linux/amd64:base", "linux/arm64:base"]
    trees = {source.purl.partition("@")[2]: source.trees for source in resolution.sources}
    assert trees["2:1.0-1?arch=all&distro=forky"] == ["linux/amd64:base", "linux/arm64:base"]
    assert trees["2.43-7?arch=amd64&distro=forky"] == ["linux/amd64:base"]
    assert trees["2.43-7?arch=arm64&distro=forky"] == ["linux/arm64:base"]
    assert [source.purl for source in resolution.sources] == sorted(
        source.purl for source in resolution.sources
    )
    reverse = bench.lock("tool", platforms=(ARM64, AMD64))
    assert reverse.sources == resolution.sources


def test_a_second_lock_downloads_the_release_only(bench: Bench) -> None:
    first = bench.lock("tool")
    assert any("/by-hash/" in path for path in bench.server.paths())
    bench.server.requests.clear()
    assert bench.lock("tool") == first
    assert bench.server.paths() == ["/debian/dists/forky/InRelease"]


def test_a_damaged_kept_index_is_fetched_again(bench: Bench) -> None:
    first = bench.lock("tool")
    kept = bench.store.blob_path(Digest.of(bench.take(f"{PACKAGES}.xz")))
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.chmod(0o644)
    kept.write_bytes(data)
    assert bench.lock("tool") == first  # which is remembered
    (bench.store.root / "derivations").rename(bench.store.root / "forgotten")
    (bench.store.root / "derivations").mkdir()
    assert bench.lock("tool") == first
    assert any("damaged" in warning for warning in bench.warnings)


@pytest.mark.parametrize("kept", [".xz", ".gz", ""])
def test_any_compression_will_do(bench: Bench, kept: str) -> None:
    others = tuple(f"Packages{suffix}".encode() for suffix in {".xz", ".gz", ""} - {kept})
    lines = bench.archive.release().split(b"\n")
    kept_lines = [line for line in lines if not (line.startswith(b" ") and line.endswith(others))]
    assert len(lines) - len(kept_lines) == 4
    bench.put("dists/forky/InRelease", bench.archive.key.clearsign(b"\n".join(kept_lines)))
    assert "tool" in names(bench.lock("tool"))


def test_architecture_all_may_be_an_index_of_its_own(bench: Bench) -> None:
    archive = bench.archive
    shared = [stanza for stanza in archive._stanzas["main", "amd64"] if "Architecture: all" in stanza]
    for architecture in ("amd64", "arm64"):
        stanzas = archive._stanzas["main", architecture]
        archive._stanzas["main", architecture] = [stanza for stanza in stanzas if stanza not in shared]
    archive._stanzas["main", "all"] = shared
    archive.architectures = ("amd64", "arm64", "all")
    bench.publish(Architectures="all amd64 arm64", No_Support_for_Architecture_all="")
    assert "tool" in names(bench.lock("tool"))


def test_components_are_read_as_asked(bench: Bench) -> None:
    bench.archive.add("firmware", component="non-free", depends="tool")
    bench.publish()
    with pytest.raises(ResolveError, match="no package 'firmware'"):
        bench.lock("firmware")
    assert {"firmware", "tool"} < set(names(bench.lock("firmware", components=["main", "non-free"])))
    with pytest.raises(ResolveError, match=r"no component contrib \(it has main, non-free\)"):
        bench.lock("tool", components=["main", "contrib"])


def test_a_suite_may_be_asked_for_by_its_other_name(bench: Bench) -> None:
    resolution = bench.lock("tool", suite="testing")
    assert (resolution.suites[0].name, resolution.suites[0].codename) == ("testing", "forky")
    assert all(source.purl.endswith("distro=forky") for source in resolution.sources)


# Requests that have no answer


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ("toool", "no package 'toool'", "did you mean tool?"),
        ("zzzz", "no package 'zzzz'", None),
        ("awk", "awk is a virtual package", "ask for one that provides it: mawk, gawk"),
        ("gawk=1:5.2", "the suite has gawk 1:5.3, not 1:5.2", "ask for gawk=1:5.3, or"),
        ("broken", r"broken 1.0 needs tool \(>= 3:0\), but the suite has tool 2:1.0-1", None),
        (
            "hungry",
            r"hungry 1.0 needs broken \| absent, broken 1.0 needs tool \(>= 3:0\), but the suite has",
            None,
        ),
    ],
)
def test_what_cannot_be_had_is_explained(bench: Bench, wanted: str, message: str, hint: str | None) -> None:
    with pytest.raises(ResolveError, match=message) as caught:
        bench.lock(wanted)
    assert caught.value.on == "base"
    assert (caught.value.hint or "").startswith(hint or "")
    assert bool(caught.value.hint) == bool(hint)


def test_a_conflict_is_explained(bench: Bench) -> None:
    with pytest.raises(ResolveError) as caught:
        bench.lock("tool", "jealous")
    assert caught.value.what == (
        "the packages cannot be installed together: jealous 1.0 conflicts with python3, "
        "and tool 2:1.0-1 needs python3:any"
    )


def test_a_version_may_be_pinned(bench: Bench) -> None:
    bench.archive.add("gawk", "1:5.4", provides="awk")
    bench.publish()
    assert any("gawk@1:5.4?" in source.purl for source in bench.lock("gawk").sources)
    assert any("gawk@1:5.3?" in source.purl for source in bench.lock("gawk=1:5.3").sources)


def test_an_architecture_that_the_suite_lacks(bench: Bench) -> None:
    bench.publish(Architectures="all amd64")
    with pytest.raises(ResolveError, match=r"no packages for arm64 \(it has amd64\)"):
        bench.lock("tool", platforms=(AMD64, ARM64))


def test_no_mirror_and_no_snapshot_service_name_the_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockbuild.config.apt.snapshot_service", lambda: None)
    with pytest.raises(ResolveError, match="no snapshot service is known") as caught:
        bench.lock("tool", snapshot="20260101T000000Z")
    assert "[debian] snapshot" in (caught.value.hint or "")
    monkeypatch.setattr("lockbuild.config.apt.archive_mirrors", list)
    context = bench.context()
    config = Config.model_validate({"debian": bench.debian})
    with pytest.raises(ResolveError, match="no mirror of the Debian archive is known") as caught:
        bench.lock("tool", context=replace(context, config=config))
    assert "[debian] mirrors" in (caught.value.hint or "")


# Time


def test_an_expired_release_needs_a_decision(bench: Bench) -> None:
    bench.publish(date=NOW - timedelta(days=9), valid_for=timedelta(days=7))
    with pytest.raises(ResolveError, match="expired") as caught:
        bench.lock("tool")
    assert "allow-expired = true" in (caught.value.hint or "")
    assert not bench.warnings

    accepted = bench.lock("tool", allow_expired=True)
    assert accepted.suites[0].expired == "accepted"
    assert (
        "; accepted, because allow-expired in the request says so; the lock records it" in bench.warnings[-1]
    )
    assert bench.lock("tool", context=bench.context(allow_expired=True)) == accepted
    assert "because --allow-expired says so" in bench.warnings[-1]
    bench.debian["allow-expired"] = True
    assert bench.lock("tool") == accepted
    assert "because [debian] allow-expired in lockbuild's config.toml says so" in bench.warnings[-1]


def test_accepting_expiry_records_nothing_where_nothing_is_expired(bench: Bench) -> None:
    assert bench.lock("tool", allow_expired=True).suites[0].expired is None
    bench.publish(Valid_Until="")
    suite = bench.lock("tool").suites[0]
    assert (suite.valid_until, suite.expired) == (None, None)


def test_a_release_from_the_future_is_refused(bench: Bench) -> None:
    bench.publish(date=NOW + timedelta(days=2))
    with pytest.raises(ResolveError, match="dated") as caught:
        bench.lock("tool", allow_expired=True)
    assert "clock" in (caught.value.hint or "")


def test_a_snapshot_is_judged_at_its_own_time(bench: Bench) -> None:
    bench.publish(date=NOW - timedelta(days=100), valid_for=timedelta(days=7))
    then = (NOW - timedelta(days=98)).strftime("%Y%m%dT%H%M%SZ")
    late = (NOW - timedelta(days=90)).strftime("%Y%m%dT%H%M%SZ")
    for time in (then, late):
        for path, data in bench.archive.files.items():
            bench.server.files[f"/archive/debian/{time}/{path}"] = data
    bench.mirrors = ["http://unused.example.test/debian"]
    bench.debian["snapshot"] = f"{bench.server.url}/archive/debian/"
    suite = bench.lock("tool", snapshot=then).suites[0]
    assert (suite.snapshot, suite.expired) == (then, None)
    with pytest.raises(ResolveError, match="expired"):
        bench.lock("tool", snapshot=late)
    assert bench.lock("tool", snapshot=late, allow_expired=True).suites[0].expired == "accepted"


# Mirrors that fail or lie


def test_signatures_are_checked(bench: Bench, tmp_path: Path) -> None:
    with signing_key("Somebody else") as stranger:
        bench.publish(key=stranger)
        with pytest.raises(IntegrityError, match="not in the keyring"):
            bench.lock("tool", allow_expired=True)
    good = bench.archive.key.clearsign(bench.archive.release())
    for bad, message in (
        (bench.archive.release(), "not signed"),
        (b"Suite: evil\n" + good, "text before"),
        (good.replace(b"Suite: testing", b"Suite: tesling"), "changed after it was signed"),
        (good[:-60], "truncated"),
    ):
        bench.put("dists/forky/InRelease", bad)
        with pytest.raises(IntegrityError, match=message):
            bench.lock("tool", allow_expired=True)
    assert not list((tmp_path / "store" / "blobs" / "sha256").glob("*"))


def test_the_index_of_another_suite_is_refused(bench: Bench) -> None:
    bench.publish(Suite="stable", Codename="trixie")
    with pytest.raises(IntegrityError, match=r"the index of stable \(trixie\), not of forky"):
        bench.lock("tool")


def test_wrong_bytes_of_the_right_size_are_refused(bench: Bench) -> None:
    path = f"{PACKAGES}.xz"
    data = bytearray(bench.take(path))
    data[100] ^= 1
    bench.replace_everywhere(path, bytes(data))
    with pytest.raises(IntegrityError, match="has the digest sha256:.* the signed index says sha256:"):
        bench.lock("tool")
    bench.without_by_hash()
    with pytest.raises(IntegrityError, match="the signed index says"):
        bench.lock("tool")
    assert not bench.store.has_blob(Digest.of(bytes(data)))


def test_a_mirror_in_the_middle_of_an_update_says_so(bench: Bench) -> None:
    bench.without_by_hash()
    bench.put(f"{PACKAGES}.xz", bench.take(f"{PACKAGES}.xz") + b"more")
    with pytest.raises(FetchError, match="in the middle of an update") as caught:
        bench.lock("tool")
    assert "try again" in (caught.value.hint or "")


def test_a_mirror_that_is_updated_meanwhile_says_so(bench: Bench) -> None:
    old = bench.take("dists/forky/InRelease")
    bench.archive.add("new")
    bench.publish()
    bench.without_by_hash()
    for path in [path for path in bench.server.files if path.endswith("Packages.xz")]:
        del bench.server.files[path]
    bench.server.script["/debian/dists/forky/InRelease"] = [serve.other(old)]
    with pytest.raises(FetchError, match="in the middle of an update"):
        bench.lock("tool")


def test_by_hash_outlives_an_update(bench: Bench) -> None:
    bench.put(f"{PACKAGES}.xz", b"the index of another state")
    assert "tool" in names(bench.lock("tool"))


def test_a_missing_index_is_a_fetch_error(bench: Bench) -> None:
    bench.without_by_hash()
    del bench.server.files[f"/debian/{PACKAGES}.xz"]
    with pytest.raises(FetchError, match="404|no such file"):
        bench.lock("tool")


def test_a_suite_that_the_mirror_has_not(bench: Bench) -> None:
    del bench.server.files["/debian/dists/forky/InRelease"]
    with pytest.raises(
        FetchError, match="there is no suite 'forky' there [(]the server answers 404"
    ) as caught:
        bench.lock("tool")
    assert (caught.value.on or "").startswith(f"base: {bench.server.url}/debian/dists/forky/")
    assert "correct `suite` in the manifest" in (caught.value.hint or "")
    assert "(this one is of [debian] mirrors in lockbuild's config.toml)" in (caught.value.hint or "")


def test_an_index_larger_than_signed_is_not_read(bench: Bench) -> None:
    text = bench.archive.release()
    plain = bench.archive.files[PACKAGES]
    small = f"{Digest.of(plain).hex} {10:8} main/binary-amd64/Packages\n".encode()
    true = f"{Digest.of(plain).hex} {len(plain):8} main/binary-amd64/Packages\n".encode()
    assert true in text
    bench.put("dists/forky/InRelease", bench.archive.key.clearsign(text.replace(true, small)))
    with pytest.raises(IntegrityError, match="more than the 10 bytes"):
        bench.lock("tool")


@pytest.mark.parametrize(
    ("stanza", "message"),
    [
        ("Filename: pool/evil.deb\nSize: 1\n", "no SHA256"),
        (f"Filename: ../../etc/passwd\nSize: 1\nSHA256: {'0' * 64}\n", "not a path below"),
        (
            f"Filename: pool/e.deb\nSize: 1\nSHA256: {'0' * 64}\nX: {'y' * (5 << 20)}\n",
            "the most that is read",
        ),
    ],
)
def test_a_hostile_stanza_is_refused_when_it_is_needed(bench: Bench, stanza: str, message: str) -> None:
    bench.archive.add_stanza(f"Package: evil\nVersion: 1\nArchitecture: all\n{stanza}")
    bench.publish()
    assert "evil" not in names(bench.lock("tool"))
    with pytest.raises(IntegrityError, match=message):
        bench.lock("evil")


@pytest.mark.parametrize("fault", ["gone", "unsigned", "expired", "damaged"])
def test_the_next_mirror_is_tried_with_a_warning(bench: Bench, tmp_path: Path, fault: str) -> None:
    with serving() as bad:
        bench.archive.upload(bad)
        release = "/debian/dists/forky/InRelease"
        if fault == "gone":
            bad.files.clear()
        elif fault == "unsigned":
            bad.files[release] = bench.archive.release()
        elif fault == "expired":
            text = bench.archive.release(date=NOW - timedelta(days=30))
            bad.files[release] = bench.archive.key.clearsign(text)
        else:
            for path in [path for path in bad.files if "/binary-amd64/" in path]:
                bad.files[path] = bad.files[path][:-1] + b"?"
        bench.mirrors.insert(0, bad.url.replace("http://", "http://user:secret@") + "/debian/")
        assert "tool" in names(bench.lock("tool"))
    (warning,) = bench.warnings
    assert "cannot be used" in warning
    assert "secret" not in warning


def test_all_mirrors_fail_with_the_error_of_the_first(bench: Bench) -> None:
    bench.mirrors = [f"{bench.server.url}/none", f"{bench.server.url}/nothing"]
    with pytest.raises(FetchError, match="404|no such file") as caught:
        bench.lock("tool")
    assert "/none/dists" in (caught.value.on or "")
    assert len(bench.warnings) == 2


def test_offline_needs_a_local_mirror(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(OfflineError):
        bench.lock("tool", context=bench.context(offline=True))
    online = bench.lock("tool")
    bench.archive.write(tmp_path / "mirror")
    bench.mirrors = [(tmp_path / "mirror").as_uri()]
    assert bench.lock("tool", context=bench.context(offline=True)) == online


def test_missing_tools_are_named(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench.debian["keyring"] = str(tmp_path / "none.gpg")
    with pytest.raises(ResolveError, match="keyring .* cannot be read"):
        bench.lock("tool")
    bench.debian["keyring"] = str(bench.archive.key.keyring)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResolveError, match="gpgv is not installed"):
        bench.lock("tool")


def test_the_hash_seed_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.archive.write(tmp_path / "mirror")
    program = tmp_path / "lock.py"
    program.write_text(
        textwrap.dedent(
            f"""
            from datetime import UTC, datetime
            from pathlib import Path
            from lockbuild.config import Config
            from lockbuild.model.platform import Platform
            from lockbuild.model.requests import DebianBase
            from lockbuild.resolve import ResolveContext, resolve
            from lockbuild.store import Store
            from lockbuild.transport.http import Http

            config = Config.model_validate({{"debian": {{
                "mirrors": [{(tmp_path / "mirror").as_uri()!r}], "keyring": {str(bench.archive.key.keyring)!r}}}}})
            here = Path({str(tmp_path)!r})
            context = ResolveContext(Http(config), config, Store(here / "store"), datetime.now(UTC), here)
            platforms = [Platform("linux", "amd64"), Platform("linux", "arm64")]
            print(resolve("base", DebianBase(suite="forky", packages=["gawk", "tool"]), platforms, context))
            """
        )
    )
    outputs = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, check=True, env=environment
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert b"gawk" in outputs.pop()
