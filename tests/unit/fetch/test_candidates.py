"""Where each kind of source may be, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockbuild.config import Config, DebianConfig, PypiConfig
from lockbuild.fetch import deb, pypi, url
from lockbuild.fetch.places import Places
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source, Suite
from lockbuild.transport.failures import UnreachableError
from lockbuild.transport.http import Http
from lockbuild.transport.index import PackageIndexes
from tests.support import http_server as serve
from tests.support.http_server import serving

DIGEST = Digest.of(b"x")


def places(config: Config, suites: tuple[Suite, ...] = (), http: Http | None = None) -> Places:
    return Places(config, PackageIndexes(http or Http(config), config), deb.timestamps_of(suites))


def suite(date: str, snapshot: str | None = None) -> Suite:
    return Suite(name="testing", codename="forky", date=date, snapshot=snapshot, inrelease=DIGEST)


def debian(path: str = "pool/main/l/libfoo/libfoo++_1.0~rc1+b1_all.deb") -> Source:
    purl = "pkg:deb/debian/libfoo@1.0?arch=all&distro=forky"
    return Source(purl=purl, path=path, sha256=DIGEST, trees=["linux/amd64:base"])


def test_mirrors_come_first_then_snapshots() -> None:
    config = Config(
        debian=DebianConfig(
            mirrors=["http://one.test/debian/", "http://two.test"], snapshot="http://old.test/a"
        )
    )
    found = list(
        deb.candidates(debian(), places(config, (suite("2026-11-01T12:00:00Z", "20261101T180000Z"),)))
    )
    path = "pool/main/l/libfoo/libfoo%2B%2B_1.0~rc1%2Bb1_all.deb"
    assert found == [
        f"http://one.test/debian/{path}",
        f"http://two.test/{path}",
        f"http://old.test/a/20261101T180000Z/{path}",
        f"http://old.test/a/20261102T120000Z/{path}",
        f"http://old.test/a/20261101T120000Z/{path}",
    ]


@pytest.mark.parametrize(
    "date",
    [
        "2026-11-01T12:00:00Z",
        "20261101T120000Z",
        "Sun, 01 Nov 2026 12:00:00 UTC",
        "2026-11-01T14:00:00+02:00",
    ],
)
def test_dates_in_every_notation_are_snapshot_times(date: str) -> None:
    assert deb.timestamps_of([suite(date)])["forky"] == ("20261102T120000Z", "20261101T120000Z")
    assert deb.timestamps_of([suite(date)])["testing"] == ("20261102T120000Z", "20261101T120000Z")


def test_a_snapshot_service_as_apt_writes_it() -> None:
    config = Config(
        debian=DebianConfig(mirrors=["http://one.test"], snapshot="http://old.test/@SNAPSHOTID@/d/")
    )
    found = list(deb.candidates(debian("pool/x"), places(config, (suite("?", "20261101T180000Z"),))))
    assert found[1:] == ["http://old.test/20261101T180000Z/d/pool/x"]


def test_without_a_known_time_there_is_no_snapshot() -> None:
    config = Config(debian=DebianConfig(mirrors=["http://one.test"], snapshot="http://old.test/a"))
    assert list(deb.candidates(debian("pool/x"), places(config))) == ["http://one.test/pool/x"]


def wheel() -> Source:
    return Source(
        purl="pkg:pypi/some-thing@1.0", path="some_thing-1.0-py3-none-any.whl", sha256=DIGEST, trees=[]
    )


def page(files: dict[str, str]) -> bytes:
    """A PEP 503 page: file name -> href."""
    links = "".join(f'<a href="{href}">{name}</a>' for name, href in files.items())
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


def test_wheels_are_looked_up_by_name_on_each_index(tmp_path: Path) -> None:
    with serving() as one, serving() as two, serving() as three:
        name = "some_thing-1.0-py3-none-any.whl"
        one.add("/simple/some-thing/", page({name: f"../../f/{name}#sha256={'0' * 64}"}), "text/html")
        two.add(
            "/simple/some-thing/",
            page({name: f"../../f/{name}", "other.whl": "x"}),
            "text/html; charset=utf-8",
        )
        document = {
            "meta": {"api-version": "1.1"},
            "name": "some-thing",
            "files": [{"filename": name, "url": f"{two.url}/j/{name}", "hashes": {"sha256": DIGEST.hex}}],
            "versions": ["1.0"],
        }
        json_type = "application/vnd.pypi.simple.v1+json"
        three.add("/root/some-thing/", json.dumps(document).encode(), json_type)
        secret = three.url.replace("//", "//u:pw@")
        config = Config(
            pypi=PypiConfig(
                indexes=[f"{one.url}/simple", f"{two.url}/simple/", tmp_path.as_uri(), f"{secret}/root"]
            )
        )
        with Http(config) as http:
            where = places(config, http=http)
            assert list(pypi.candidates(wheel(), where)) == [f"{two.url}/f/{name}", f"{two.url}/j/{name}"]
            list(pypi.candidates(wheel(), where))
            assert len(two.requests) == 1, "an index page is read once a run"
            assert "authorization" in three.requests[0].headers


def test_links_of_an_index_with_credentials_keep_them_on_their_own_host() -> None:
    with serving() as one:
        one.credentials = ("u", "pw")
        files = {"some_thing-1.0-py3-none-any.whl": f"{one.url}/f/x.whl"}
        one.add("/simple/some-thing/", page(files), "text/html")
        secret = one.url.replace("//", "//u:pw@")
        config = Config(pypi=PypiConfig(indexes=[f"{secret}/simple"]))
        with Http(config) as http:
            assert list(pypi.candidates(wheel(), places(config, http=http))) == [f"{secret}/f/x.whl"]


def test_an_index_that_fails_does_not_hide_the_next() -> None:
    with serving() as one, serving() as two:
        one.script["/simple/some-thing/"] = [serve.status(500)] * 9
        two.add("/simple/some-thing/", page({"some_thing-1.0-py3-none-any.whl": "/f/x.whl"}), "text/html")
        config = Config.model_validate(
            {"pypi": {"indexes": [f"{one.url}/simple", f"{two.url}/simple"]}, "network": {"retries": 0}}
        )
        with Http(config) as http:
            found = pypi.candidates(wheel(), places(config, http=http))
            assert next(found) == f"{two.url}/f/x.whl"
            with pytest.raises(UnreachableError, match="500"):
                next(found)


def test_archives_are_where_they_say() -> None:
    source = Source(purl="pkg:generic/x", url="http://a.test/x", sha256=DIGEST, trees=[])
    assert list(url.candidates(source, places(Config()))) == ["http://a.test/x"]
    assert list(url.candidates(source.model_copy(update={"url": None}), places(Config()))) == []
