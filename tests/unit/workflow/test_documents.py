"""What is taken down while resolving at one site, and looked up at another without a network."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.config.mirrors import Mirror
from lockbuild.errors import FetchError, IntegrityError, ResolveError
from lockbuild.events import Event, Note
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PypiTool
from lockbuild.resolve import ResolveContext, TargetPython, resolve
from lockbuild.resolve.pypi.metadata import read_metadata
from lockbuild.store import Store
from lockbuild.transport.failures import OfflineError
from lockbuild.transport.git.kept import KeptRepositories, RecordingRepositories
from lockbuild.transport.http import Http
from lockbuild.transport.index import PackageIndexes
from lockbuild.workflow.documents import RecordedDocuments, StoredDocuments, add_documents, kept_blobs
from tests.support.git_server import Repository, new_repository
from tests.support.http_server import serving
from tests.support.package_index import Index

URL = "https://git.example.test/code"


class Sites:
    """One that records into its store, and one that gets what was recorded."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.recorded = RecordedDocuments(Store(directory / "here"))
        self.there = Store(directory / "there")

    def carry(self) -> StoredDocuments:
        """Bring everything over, as a bundle does."""
        here = Store(self.directory / "here")
        noted = {name: digest for name, (digest, _) in self.recorded.noted.items()}
        for digest in noted.values():
            self.there.add_file(here.blob_path(digest), digest)
        add_documents(self.there, noted)
        return StoredDocuments(self.there)


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path)


def test_a_package_index(sites: Sites) -> None:
    with serving() as server:
        index = Index(server)
        for version in ("1.0", "2.0"):
            index.add("some-tool", version, requires=["other>=1"], metadata=version == "2.0")
        index.add("some-tool", "3.0", **{"yanked": "broken", "requires-python": ">=3.9", "size": None})
        config = Config(pypi={"indexes": [index.url]})  # type: ignore[arg-type]
        with Http(config, documents=sites.recorded) as http:
            indexes = PackageIndexes(http, config)
            found = indexes.project("Some_Tool") or ()
            assert indexes.project("absent") is None
            metadata = [read_metadata(http, file, Store(sites.directory / "here")) for file in found[:2]]
        host = server.url.encode()
    assert not any(
        host in Store(sites.directory / "here").blob_path(digest).read_bytes()
        for digest, _ in sites.recorded.noted.values()
    )
    with Http(Config(), offline=True, documents=sites.carry()) as http:
        indexes = PackageIndexes(http, Config())
        again = indexes.project("some.tool") or ()
        assert indexes.project("absent") is None
        assert [read_metadata(http, file, sites.there) for file in again[:2]] == metadata
        with pytest.raises(FetchError):
            indexes.project("never-asked-for")
        with pytest.raises(FetchError):
            read_metadata(http, again[2], sites.there)
    nowhere = {"url": "", "metadata_url": None, "metadata_sha256": None}
    assert [replace(file, **nowhere) for file in found] == [replace(file, **nowhere) for file in again]  # type: ignore[arg-type]
    assert len({file.url for file in again}) == 3


def test_versions_whose_metadata_nobody_read(sites: Sites) -> None:
    platform = Platform.parse("linux/amd64")
    heard: list[Event] = []

    def resolved(requirement: str, http: Http, store: Store) -> list[str]:
        context = ResolveContext(
            http=http,
            config=config,
            store=store,
            now=datetime(2026, 11, 1, tzinfo=UTC),
            project=sites.directory,
            targets={platform: TargetPython((3, 14, 7), (2, 41))},
            report=heard.append,
        )
        request = PypiTool.model_validate({"from": "pypi", "requirement": requirement})
        return [source.purl for source in resolve("tools.maker", request, [platform], context).sources]

    with serving() as server:
        index = Index(server)
        index.add("some-tool", "1.0")
        index.add("some-tool", "2.0", requires=["other"])
        index.add("some-tool", "3.0", requires=["other>=2"])
        index.add("other", "1.0")
        index.add("other", "2.0")
        config = Config.model_validate({"pypi": {"indexes": [index.url]}})
        with Http(config, documents=sites.recorded) as http:
            before = resolved("some-tool<3", http, Store(sites.directory / "here"))
    with Http(config, offline=True, documents=sites.carry()) as http:
        assert resolved("some-tool<3", http, sites.there) == before
        assert not heard
        assert resolved("some-tool", http, sites.there) == before
        assert [event.message for event in heard if isinstance(event, Note)] == [
            "tools.maker: some-tool 2.0 was taken and not 3.0, of which no loaded bundle has the metadata"
        ]
        for requirement, named in (
            ("some-tool==1.0", "some-tool 1.0"),
            ("some-tool!=2.0", "some-tool 3.0, 1.0"),
        ):
            with pytest.raises(OfflineError) as caught:
                resolved(requirement, http, sites.there)
            assert caught.value.what == (
                f"the metadata of {named} is neither in the store nor in a loaded bundle, and the network must not be "
                "used; it is there of 2.0"
            )
            assert (caught.value.on or "").startswith("tools.maker (linux/amd64): some-tool")
            assert "lockbuild bundle create --for offline-lock" in (caught.value.hint or "")
        with pytest.raises(OfflineError, match="is neither in the store nor in a loaded bundle") as caught:
            resolved("never-asked-for", http, sites.there)
        assert "lockbuild bundle create --for offline-lock" in (caught.value.hint or "")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = new_repository(tmp_path / "served" / "code")
    first = made.commit({"read/me": "one", "other": "x"})
    made.tag("v1", first, annotated=True)
    made.commit({"read/me": "two", "other": "y", "read/more": "z"})
    return made


def recording(sites: Sites, repository: Repository) -> RecordingRepositories:
    mirror = Mirror(prefix="https://git.example.test/", to=[f"file://{repository.path.parent}/"])
    return RecordingRepositories(sites.directory / "cache", Config(mirrors=[mirror]), sites.recorded)


def test_a_git_repository(sites: Sites, repository: Repository) -> None:
    here = recording(sites, repository)
    refs = here.refs(URL)
    tagged = here.resolve(URL, "v1")
    newest = here.resolve(URL, "main")
    with pytest.raises(ResolveError):
        here.resolve(URL, "v9")
    assert here.read(URL, tagged, "read/me") == b"one"
    assert here.read_all(URL, newest, ["read/me", "absent"]) == {"read/me": b"two"}
    described = here.describe(URL, newest)
    listed = here.list(URL, newest, "read")
    here.note_objects()

    there = KeptRepositories(sites.directory / "there/git", Config(), sites.carry())
    assert there.refs(URL) == {name: commit for name, commit in refs.items() if name != "HEAD"}
    assert there.revision(URL, "v1") == here.revision(URL, "v1")
    assert there.resolve(URL, tagged) == tagged
    with pytest.raises(ResolveError, match="there is no tag or branch 'v9'"):
        there.resolve(URL, "v9")
    assert there.read(URL, tagged, "read/me") == b"one"
    assert there.read_all(URL, newest, ["read/me", "absent"]) == {"read/me": b"two"}
    assert there.list(URL, newest, "read") == listed == ["me", "more"]
    assert there.time(URL, newest) == here.time(URL, newest)
    assert asdict(there.describe(URL, newest)) == asdict(described)
    assert there.contents(URL, newest).trees == here.contents(URL, newest).trees
    with pytest.raises(FetchError):  # nobody read it there
        there.read(URL, newest, "other")
    with pytest.raises(FetchError):
        there.commit(URL, "4" * 40)
    with pytest.raises(FetchError):
        there.refs("https://git.example.test/another")


def test_what_is_read_later_is_added(sites: Sites, repository: Repository) -> None:
    here = recording(sites, repository)
    newest = here.resolve(URL, "main")
    here.read(URL, newest, "read/me")
    here.note_objects()
    there = KeptRepositories(sites.directory / "there/git", Config(), sites.carry())
    there.read(URL, newest, "read/me")
    here.read(URL, newest, "other")
    here.note_objects()
    there = KeptRepositories(sites.directory / "there/git", Config(), sites.carry())
    assert there.read(URL, newest, "other") == b"y"


@pytest.mark.parametrize(
    "data",
    [b"", b"commit 5\nabc", b"commit 3\nabc", b"tag 3\nabc", b"blob 99999999999999\n", b"[]", b"\xff" * 100],
)
def test_objects_that_are_not_those_of_the_commit(sites: Sites, repository: Repository, data: bytes) -> None:
    newest = recording(sites, repository).resolve(URL, "main")
    sites.recorded.note(f"git/{URL}/objects/{newest}", data)
    there = KeptRepositories(sites.directory / "there/git", Config(), sites.carry())
    with pytest.raises((IntegrityError, FetchError)):
        there.read(URL, newest, "read/me")
    assert not there.has(URL, newest)


def test_references_that_are_none(sites: Sites) -> None:
    for data in (b"[]", b'{"refs/heads/main":"x"}', b'{"refs/heads/main":1}', b"[" * 100_000):
        sites.recorded.note(f"git/{URL}/refs", data)
        there = KeptRepositories(sites.directory / "there/git", Config(), sites.carry())
        with pytest.raises(IntegrityError, match="what is kept of the repository is not sound"):
            there.refs(URL)


def test_the_catalogue(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert StoredDocuments(store).catalogue == {}
    assert kept_blobs(store) == set()
    one, other = store.add_blob(b"one"), store.add_blob(b"other")
    add_documents(store, {"a": one, "b": one})
    add_documents(store, {"b": other})
    documents = StoredDocuments(store)
    assert (documents.find("a"), documents.find("b"), documents.find("c")) == (b"one", b"other", None)
    assert {one, other} < kept_blobs(store)
    store.collect(lambda: (kept_blobs(store), set()))
    assert StoredDocuments(store).find("b") == b"other"
    path = store.blob_path(other)
    path.chmod(0o644)
    path.write_bytes(b"Other")
    with pytest.raises(IntegrityError):
        StoredDocuments(store).find("b")
    assert StoredDocuments(store).find("b") is None
