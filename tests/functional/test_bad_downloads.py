"""Servers that truncate, lie, resume wrongly or have nothing any more, and indexes that must not be believed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.debian_archive import SigningKey, signing_key
from tests.support.http_server import (
    Behaviour,
    hang_up,
    lying_range,
    no_ranges,
    other,
    shifted_range,
    status,
    truncate,
    unsized,
)
from tests.support.tiny import TinyWorld

PURL = "pkg:deb/debian/greeting@1.0?arch=all&distro=forky"


class Download:
    """One file that a sync into an empty store needs, from a server that can be told to misbehave."""

    def __init__(self, world: TinyWorld, store: Path) -> None:
        self.world, self.store = world, store
        self.path = next(path for path in world.server.files if "/greeting_1.0" in path)
        self.data = world.server.files[self.path]
        self.url = world.server.url + self.path

    def misbehave(self, *behaviours: Behaviour) -> None:
        self.world.server.script[self.path] = list(behaviours)

    def requests(self) -> list[dict[str, str]]:
        """The headers of the requests for it in the last sync."""
        return [
            request.headers
            for request in self.world.server.requests[self.before :]
            if request.path == self.path
        ]

    def sync(self, status: int = 0) -> str:
        """Sync; what it said."""
        self.before = len(self.world.server.requests)
        return self.world.run("sync", store=self.store, status=status).err

    def recovers(self) -> None:
        """Nothing bad is kept, and the next sync makes everything."""
        self.world.server.script.clear()
        self.world.run("store", "verify", store=self.store)
        assert list(self.store.glob("tmp/*")) == []
        self.sync()
        self.world.run("store", "verify", store=self.store)
        assert list(self.store.glob("partial/*")) == []
        self.world.run("reproduce", store=self.store)


@pytest.fixture
def download(shared: TinyWorld, tmp_path: Path) -> Download:
    return Download(shared, tmp_path / "fresh")


def test_a_truncated_download_is_resumed(download: Download) -> None:
    download.misbehave(truncate(100), truncate(50))
    download.sync()
    ranges = [headers.get("range") for headers in download.requests()]
    assert ranges == [None, "bytes=100-", "bytes=150-"]
    download.recovers()


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (truncate(0), "the transfer broke off: {size} bytes are missing"),
        (hang_up(), "cannot be reached"),
        (status(503), "the server answers 503"),
        (status(403), "the server answers 403"),
    ],
)
def test_a_server_that_only_fails(download: Download, behaviour: Behaviour, told: str) -> None:
    download.misbehave(*[behaviour] * 10)
    said = download.sync(status=4)
    assert f"error: {PURL}: could not be fetched ({download.url}: " in said
    assert told.format(size=len(download.data)) in said
    assert "it has left the mirror" not in said
    download.recovers()


def test_a_download_cut_short_without_a_length_is_not_taken(download: Download) -> None:
    download.misbehave(unsized(100))
    download.sync()
    assert [headers.get("range") for headers in download.requests()] == [None, "bytes=100-"]
    download.recovers()


def test_another_file_of_the_right_size(download: Download) -> None:
    wrong = bytes(len(download.data))
    download.misbehave(*[other(wrong)] * 10)
    said = download.sync(status=5)
    assert f"error: {PURL}: no place has what was locked ({download.url}: " in said
    assert f"the {len(wrong)} bytes received have the digest sha256:" in said
    assert "; the lock says sha256:" in said
    assert "hint: what is there is not what was locked; if the change is wanted, lock again with" in said
    assert len(download.requests()) == 1, "a whole wrong file is not asked for again"
    download.recovers()


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size(download: Download, change: int) -> None:
    size = len(download.data)
    download.misbehave(*[other(bytes(size + change))] * 10)
    said = download.sync(status=5)
    assert f"{PURL}: the server has {size + change} bytes, the lock says {size}" in said
    assert "lock again with `lockbuild lock --upgrade`" in said
    download.recovers()


@pytest.mark.parametrize(
    "wrong", [lying_range(10), shifted_range(10), no_ranges()], ids=["lying", "shifted", "everything"]
)
def test_a_server_that_resumes_wrongly(download: Download, wrong: Behaviour) -> None:
    download.misbehave(truncate(100), wrong)
    download.sync()
    assert len(download.requests()) <= 3
    download.recovers()


def test_a_file_that_changed_between_two_parts(download: Download) -> None:
    """The part of the new file does not continue the old one: it is taken from the start, and refused as a whole."""
    changed = bytes(reversed(download.data))
    download.misbehave(truncate(100), *[other(changed, ranges=True)] * 10)
    said = download.sync(status=5)
    assert f"{PURL}: the {len(changed)} bytes received have the digest sha256:" in said
    download.recovers()


def snapshots(world: TinyWorld, before: int) -> list[str]:
    return [
        request.path for request in world.server.requests[before:] if request.path.startswith("/snapshot/")
    ]


def test_a_vanished_package_is_found_in_the_snapshot_service(download: Download) -> None:
    server = download.world.server
    del server.files[download.path]
    said = download.sync(status=4)
    assert (
        f"error: {PURL}: no place has it any more ({download.url}: the server answers 404 Not Found" in said
    )
    assert '[debian] snapshot = "https://…"), or lock again with `lockbuild lock --upgrade`' in said
    tried = snapshots(download.world, download.before)
    assert len(tried) == 2, "the day after the index, and the moment of it"
    server.files[tried[0]] = download.data
    try:
        download.sync()
    finally:
        del server.files[tried[0]]
    download.world.run("reproduce", "--offline", store=download.store)


def test_a_snapshot_service_with_another_file(download: Download) -> None:
    server = download.world.server
    del server.files[download.path]
    download.sync(status=4)
    tried = snapshots(download.world, download.before)
    for path in tried:
        server.files[path] = bytes(len(download.data))
    try:
        said = download.sync(status=5)
    finally:
        for path in tried:
            del server.files[path]
    assert f"{PURL}: the {len(download.data)} bytes received have the digest sha256:" in said


def test_a_vanished_package_and_a_snapshot_service_that_does_not_answer(
    download: Download, tmp_path: Path
) -> None:
    world = download.world
    text = world.config.read_text()
    config = tmp_path / "config.toml"
    config.write_text(text.replace(f"{world.server.url}/snapshot", "http://127.0.0.1:9/snapshot"))
    del world.server.files[download.path]
    result = world.run("sync", store=download.store, status=4, environ={"LOCKBUILD_CONFIG": str(config)})
    assert (
        f"error: {PURL}: could not be fetched ({download.url}: the server answers 404 Not Found" in result.err
    )
    assert "http://127.0.0.1:9/snapshot/" in result.err
    assert "cannot be reached: Connection refused" in result.err
    assert "or lock again with `lockbuild lock --upgrade`" in result.err


def test_all_that_vanished_is_told_at_once(download: Download) -> None:
    for path in [path for path in download.world.server.files if "/pool/" in path]:
        del download.world.server.files[path]
    said = download.sync(status=4)
    assert "error: 2 sources could not be fetched" in said
    assert said.count("no place has it any more") == 1
    assert "\n    pool/main/b/busybox/busybox_1.0_" in said
    assert f"\n    {download.path.partition('/debian/')[2]} (" in said
    assert said.count("hint: ") == 1


# Signed indexes


@pytest.fixture(scope="module")
def stranger() -> Iterator[SigningKey]:
    with signing_key("Somebody else") as key:
        yield key


def lock_again(world: TinyWorld, wanted: int = 2) -> str:
    before = (world.project / "lockbuild.lock").read_bytes()
    result = world.run("lock", "--upgrade", status=wanted)
    if wanted:
        assert (world.project / "lockbuild.lock").read_bytes() == before
    return result.err


def test_an_expired_index_is_refused_or_accepted_on_the_record(shared: TinyWorld) -> None:
    world = shared
    world.archive.publish(date=datetime.now(UTC) - timedelta(days=30), valid_for=timedelta(days=7))
    world.archive.upload(world.server)
    said = lock_again(world)
    assert "error: " in said
    assert "forky" in said
    assert "expired" in said
    assert "--allow-expired" in said
    result = world.run("lock", "--upgrade", "--allow-expired")
    assert "expired on" in result.err
    assert 'expired = "accepted"' in (world.project / "lockbuild.lock").read_text()
    assert "expired" in result.out
    world.run("sync")


def test_an_index_that_somebody_else_signed(shared: TinyWorld, stranger: SigningKey) -> None:
    world = shared
    world.archive.publish(key=stranger)
    world.archive.upload(world.server)
    said = lock_again(world, 5)
    assert "InRelease" in said
    assert "signature" in said or "signed" in said
    assert str(world.config.parent / "keyring.gpg") in said
    assert "hint: " in said


@pytest.mark.parametrize("spoil", ["text", "signature", "unsigned", "empty", "garbage"])
def test_an_index_whose_signature_is_not_good(shared: TinyWorld, spoil: str) -> None:
    world = shared
    path = "/debian/dists/forky/InRelease"
    signed = world.server.files[path]
    world.server.files[path] = {
        "text": signed.replace(b"Origin: A test", b"Origin: A tesd"),
        "signature": signed[:-60] + signed[-60:].replace(b"a", b"b").replace(b"A", b"B"),
        "unsigned": world.archive.release(),
        "empty": b"",
        "garbage": b"<html>Please log in</html>",
    }[spoil]
    assert world.server.files[path] != signed
    said = lock_again(world, 5)
    assert "InRelease" in said
    assert "hint: " in said


def test_packages_that_are_not_what_the_index_says(shared: TinyWorld) -> None:
    world = shared
    world.archive.add("another", contents={"usr/share/another": "x"})
    world.archive.publish()
    world.archive.upload(world.server)
    for path in [path for path in world.server.files if "/binary-" in path]:
        world.server.files[path] = b"Package: busybox\nVersion: 6.6.6\n" + world.server.files[path]
    said = lock_again(world, 4)
    assert "/Packages.xz: the mirror's index is not the one that its InRelease names" in said
    assert "hint: try again in some minutes, or use another mirror" in said


def test_a_mirror_without_the_suite(shared: TinyWorld) -> None:
    world = shared
    for path in [path for path in world.server.files if path.startswith("/debian/dists/")]:
        del world.server.files[path]
    said = lock_again(world, 4)
    assert f"{world.server.url}/debian/dists/forky/InRelease" in said
    assert "404" in said
