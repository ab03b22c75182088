"""Archives without a published digest, parts of archives, and patches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config, NetworkConfig
from lockbuild.errors import FetchError, InvalidFileError, UsageError
from lockbuild.events import Advanced, Event, Note
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.platform import Platform
from lockbuild.model.read import validate
from lockbuild.model.requests import ArchiveRequest, ArchiveTool
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http
from tests.support.http_server import Server, hang_up, no_ranges, other, serving, status, truncate

PLATFORMS = [Platform.parse("linux/amd64")]
DATA = bytes(range(256)) * 4096
PATCH = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def locked(
    directory: Path, events: list[Event] | None = None, name: str = "tools.a", **values: Any
) -> Resolution:
    config = Config(network=NetworkConfig(retries=3))
    request = ArchiveTool if name.startswith("tools") else ArchiveRequest
    with Http(config, first_wait=0.01) as http:
        context = ResolveContext(
            http=http,
            config=config,
            store=Store(directory / "store"),
            now=datetime.now(UTC),
            project=directory,
            report=(events if events is not None else []).append,
        )
        return resolve(name, request.model_validate({"from": "archive", **values}), PLATFORMS, context)


# First use


def test_what_comes_is_locked_and_said_to_be(server: Server, tmp_path: Path) -> None:
    url = server.add("/a-1.tar.gz", DATA)
    events: list[Event] = []
    (source,) = locked(tmp_path, events, url=url, trust="first-use").sources
    assert (source.trust, source.sha256, source.size) == ("first-use", Digest.of(DATA), len(DATA))
    assert f"checksum=sha256:{Digest.of(DATA).hex}" in source.purl
    assert Store(tmp_path / "store").verified_blob(Digest.of(DATA)).read_bytes() == DATA
    (note,) = [event for event in events if isinstance(event, Note)]
    assert note.level == "warning"
    assert note.message.startswith("tools.a: nobody publishes a digest of http://127.0.0.1:")
    assert sum(event.amount for event in events if isinstance(event, Advanced)) == len(DATA)


def test_a_transfer_that_breaks_off_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    url = server.add("/a.tar.gz", DATA)
    server.script["/a.tar.gz"] = [truncate(300_000), status(503), truncate(200_000)]
    (source,) = locked(tmp_path, url=url, trust="first-use").sources
    assert source.sha256 == Digest.of(DATA)
    assert server.requests[-1].headers["range"] == "bytes=500000-"


def test_a_file_that_changed_meanwhile_is_begun_again(server: Server, tmp_path: Path) -> None:
    url = server.add("/a.tar.gz", DATA)
    server.script["/a.tar.gz"] = [truncate(300_000), other(DATA[::-1])]
    (source,) = locked(tmp_path, url=url, trust="first-use").sources
    assert source.sha256 == Digest.of(DATA[::-1])


def test_without_ranges_it_is_begun_again(server: Server, tmp_path: Path) -> None:
    url = server.add("/a.tar.gz", DATA)
    server.script["/a.tar.gz"] = [truncate(300_000), no_ranges()]
    events: list[Event] = []
    (source,) = locked(tmp_path, events, url=url, trust="first-use").sources
    assert source.sha256 == Digest.of(DATA)
    assert sum(event.amount for event in events if isinstance(event, Advanced)) == len(DATA)


def test_a_transfer_that_comes_no_further_ends(server: Server, tmp_path: Path) -> None:
    url = server.add("/a.tar.gz", DATA)
    server.script["/a.tar.gz"] = [truncate(10)] + [hang_up() for _ in range(40)]
    with pytest.raises(FetchError):
        locked(tmp_path, url=url, trust="first-use")
    server.script["/a.tar.gz"] = [status(404)]
    with pytest.raises(FetchError, match="404"):
        locked(tmp_path, url=url, trust="first-use")
    assert not Store(tmp_path / "store").has_blob(Digest.of(DATA))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, 'tools.a.sha256: is required; where nobody publishes it, write trust = "first-use"'),
        (
            {"sha256": "0" * 64, "trust": "first-use"},
            'tools.a.sha256: says what must come, so trust = "first-use" has no place beside it',
        ),
        ({"trust": "always"}, 'tools.a.trust: must be "first-use", not "always"'),
    ],
)
def test_a_manifest_says_what_binds_an_archive(values: dict[str, str], message: str) -> None:
    from lockbuild.model.manifest import Toolchain

    data = {
        "schema": 1,
        "name": "t",
        "platforms": ["linux/amd64"],
        "base": {"debian": {"suite": "forky"}},
        "tools": {"a": {"from": "archive", "url": "https://h.test/a.tar.gz", **values}},
    }
    with pytest.raises(InvalidFileError) as caught:
        validate(Toolchain, data, "t.toml")
    assert [str(problem) for problem in caught.value.problems] == [message]


# Parts and patches

BOUND = {"url": "https://h.test/a.tar.gz", "sha256": Digest.of(DATA).hex}


def test_a_subdirectory_is_a_parameter_of_the_tree(tmp_path: Path) -> None:
    (tree,) = locked(tmp_path, **BOUND, subdirectory="src/lib").trees
    assert tree.parameters == {"subdirectory": "src/lib"}
    (tree,) = locked(tmp_path, **BOUND).trees
    assert tree.parameters == {}


def test_patches_are_sources_in_their_turn(tmp_path: Path) -> None:
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches/one.patch").write_bytes(PATCH)
    (tmp_path / "two.diff").write_bytes(b"prose\n" + PATCH)
    resolution = locked(tmp_path, name="sources.a", **BOUND, patches=["two.diff", "./patches/one.patch"])
    archive, first, second = resolution.sources
    assert archive.patch is None
    assert (first.path, first.patch, second.path, second.patch) == ("two.diff", 1, "patches/one.patch", 2)
    assert second.sha256 == Digest.of(PATCH)
    assert second.size == len(PATCH)
    assert second.url is None
    assert second.purl == f"pkg:generic/one.patch?checksum=sha256:{hashlib.sha256(PATCH).hexdigest()}"
    assert {tree for source in resolution.sources for tree in source.trees} == {"any:sources.a"}
    assert Store(tmp_path / "store").has_blob(Digest.of(PATCH))


def test_a_lock_with_patches_is_sound_and_canonical(tmp_path: Path) -> None:
    from lockbuild.model.lock import ManifestRecord
    from lockbuild.model.lockfile import dumps, loads
    from lockbuild.model.soundness import inputs_digest

    (tmp_path / "p").write_bytes(PATCH)
    resolution = locked(tmp_path, **BOUND, patches=["p", "p"])  # the same file may have two turns
    lock = Lock(
        manifest=ManifestRecord(digest=inputs_digest({"name": "t"}), inputs={"name": "t"}),
        trees=list(resolution.trees),
        sources=list(resolution.sources),
    )
    text = dumps(lock)
    assert dumps(loads(text, "x.lock")) == text
    with pytest.raises(InvalidFileError, match="is required for a patch"):
        loads(text.replace('path = "p"', 'url = "https://h.test/p"'), "x.lock")


def test_patches_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the patch p\.patch cannot be read: No such file") as caught:
        locked(tmp_path, **BOUND, patches=["p.patch"])
    assert caught.value.on == "tools.a.patches[0]"
    (tmp_path / "p.patch").write_bytes(b"--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-x\n+y\n")
    with pytest.raises(InvalidFileError, match=r"p\.patch: 1 problem\n  line 1: .* leads out of the tree"):
        locked(tmp_path, **BOUND, patches=["p.patch"])
