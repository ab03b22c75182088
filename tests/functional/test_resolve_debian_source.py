"""Locking upstream's archive of a Debian source package."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.events import Event, Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DebianSourceRequest
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http
from tests.support.debian_archive import DebianArchive, SigningKey, signing_key


@pytest.fixture(scope="module")
def key() -> Iterator[SigningKey]:
    with signing_key() as made:
        yield made


@pytest.fixture
def archive(key: SigningKey, tmp_path: Path) -> DebianArchive:
    made = DebianArchive(key, tmp_path)
    made.add_source("zlib", "1:1.2-1", {"zlib_1.2.orig.tar.gz": b"old"})
    made.add_source(
        "zlib",
        "1:1.3+dfsg-2",
        {
            "zlib_1.3+dfsg-2.dsc": b"dsc",
            "zlib_1.3+dfsg.orig.tar.xz": b"new",
            "zlib_1.3+dfsg.orig.tar.xz.asc": b"signature",
            "zlib_1.3+dfsg-2.debian.tar.xz": b"packaging",
        },
    )
    made.add_source("zlib", "1:9-1", {"zlib_9.orig.tar.xz": b"kept"}, extra_source_only="yes")
    made.add_source("kit", "1-1", {"kit_1.orig.tar.xz": b"kit", "kit_1.orig-docs.tar.xz": b"docs"})
    made.add_source("parts", "1-1", {"parts_1.orig-a.tar.xz": b"a", "parts_1.orig-b.tar.gz": b"b"})
    made.add_source("native", "1", {"native_1.dsc": b"dsc", "native_1.tar.xz": b"native"})
    made.add_source("evil", "1-1", {"../../../evil_1.orig.tar.xz": b"evil"})
    made.publish()
    return made


@pytest.fixture
def events() -> list[Event]:
    return []


def lock(archive: DebianArchive, events: list[Event], package: str, name: str = "sources.it") -> Resolution:
    archive.write(archive.work / "mirror")
    config = Config.model_validate(
        {"debian": {"mirrors": [(archive.work / "mirror").as_uri()], "keyring": str(archive.key.keyring)}}
    )
    store = Store(archive.work / "store")
    context = ResolveContext(
        Http(config), config, store, datetime.now(UTC), archive.work, report=events.append
    )
    request = DebianSourceRequest(from_="debian-source", package=package, suite="forky")
    return resolve(name, request, [Platform("linux", "amd64"), Platform("linux", "arm64")], context)


def test_locks_the_newest_upstream_archive(archive: DebianArchive, events: list[Event]) -> None:
    resolution = lock(archive, events, "zlib", "sources.zlib-next")
    assert resolution.trees == (
        LockedTree(
            name="sources.zlib-next",
            platform="any",
            unpack="archive",
            strip=1,
            mount="/build/sources/zlib-next",
        ),
    )
    assert resolution.sources == (
        Source(
            purl="pkg:deb/debian/zlib@1:1.3%2Bdfsg-2?arch=source&distro=forky",
            path="pool/main/z/zlib/zlib_1.3+dfsg.orig.tar.xz",
            size=3,
            sha256=Digest.of(b"new"),
            trees=["any:sources.zlib-next"],
        ),
    )
    assert resolution.suites[0].codename == "forky"
    assert not any(isinstance(event, Note) for event in events)


def test_further_archives_are_mentioned(archive: DebianArchive, events: list[Event]) -> None:
    assert lock(archive, events, "kit").sources[0].sha256 == Digest.of(b"kit")
    assert [event.message for event in events if isinstance(event, Note)] == [
        "sources.it: kit of forky has further upstream archives, which are not taken: docs"
    ]


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("parts", "components only: a, b"),
        ("native", r"no upstream archive \(.orig.tar.\*\); its files are native_1.dsc, native_1.tar.xz"),
        ("zlip", "no such source package\nhint: did you mean zlib"),
        ("qqqqqq", "no such source package"),
    ],
)
def test_what_cannot_be_had_is_explained(
    archive: DebianArchive, events: list[Event], package: str, message: str
) -> None:
    with pytest.raises(ResolveError, match=message):
        lock(archive, events, package)


def test_a_file_outside_of_the_archive_is_refused(archive: DebianArchive, events: list[Event]) -> None:
    with pytest.raises(IntegrityError, match="not a path below the archive's root"):
        lock(archive, events, "evil")
