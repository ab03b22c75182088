"""Resolving wheels against small real indexes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockbuild.config import Config, PypiConfig
from lockbuild.errors import ResolveError
from lockbuild.model.lock import Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PypiTool
from lockbuild.resolve import Resolution, ResolveContext, TargetPython, resolve
from lockbuild.store import Store
from lockbuild.transport.failures import OfflineError, UnreachableError
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.http_server import serving
from tests.support.package_index import Index

AMD = Platform.parse("linux/amd64")
ARM = Platform.parse("linux/arm64")
TARGET = TargetPython((3, 14, 7), (2, 41))


class Bench:
    """An index (and a second one behind it), and the means to resolve."""

    def __init__(self, tmp_path: Path, index: Index, second: Index) -> None:
        self.tmp_path = tmp_path
        self.index = index
        self.second = second
        self.stores = 0

    def resolve(
        self,
        requirement: str,
        platforms: tuple[Platform, ...] = (AMD,),
        *,
        target: TargetPython | None = TARGET,
        offline: bool = False,
        **options: object,
    ) -> Resolution:
        config = Config.model_validate(
            {"pypi": {"indexes": [self.index.url, self.second.url]}, "network": {"retries": 1, "timeout": 5}}
        )
        with Http(config, offline=offline, first_wait=0.01) as http:
            context = ResolveContext(
                http=http,
                config=config,
                store=Store(self.tmp_path / f"store-{self.stores}"),
                now=datetime(2026, 11, 1, tzinfo=UTC),
                project=self.tmp_path,
                targets=dict.fromkeys(platforms, target) if target else {},
            )
            tool = PypiTool.model_validate({"from": "pypi", "requirement": requirement, **options})
            return resolve("tools.x", tool, platforms, context)

    def forget(self) -> None:
        """Have an empty store from now on."""
        self.stores += 1

    def chosen(self, requirement: str, **options: object) -> list[str]:
        return sorted(source.path or "" for source in self.resolve(requirement, **options).sources)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as one, serving() as two:
        yield Bench(tmp_path, Index(one), Index(two))


def test_locks_the_newest_that_the_requirement_admits(bench: Bench) -> None:
    for version in ("1.0", "1.9", "1.10", "2.0", "2.1rc1"):
        bench.index.add("foo", version)
    assert bench.chosen("foo<2") == ["foo-1.10-py3-none-any.whl"]
    assert bench.chosen("foo") == ["foo-2.0-py3-none-any.whl"]
    assert bench.chosen("foo>=2.1rc1") == ["foo-2.1rc1-py3-none-any.whl"]
    assert bench.chosen("FOO==1.*") == ["foo-1.10-py3-none-any.whl"]


def test_what_stands_in_the_lock(bench: Bench) -> None:
    name = bench.index.add("foo-bar", "1.0")
    resolution = bench.resolve("foo-bar", (AMD, ARM), exports={"PATH": "/opt/x/bin:$PATH"})
    (source,) = resolution.sources
    assert source == Source(
        purl="pkg:pypi/foo-bar@1.0",
        path=name,
        size=len(bench.index.server.files[f"/files/{name}"]),
        sha256=source.sha256,
        trees=["linux/amd64:tools.x", "linux/arm64:tools.x"],
    )
    assert source.sha256.of(bench.index.server.files[f"/files/{name}"]) == source.sha256
    assert [tree.id for tree in resolution.trees] == ["linux/amd64:tools.x", "linux/arm64:tools.x"]
    for tree in resolution.trees:
        assert (tree.unpack, tree.mount, tree.exports) == ("wheels", "/opt/x", {"PATH": "/opt/x/bin:$PATH"})
    assert bench.resolve("foo-bar", mount="/opt/elsewhere").trees[0].mount == "/opt/elsewhere"
    assert f"/files/{name}" not in [
        request.path for request in bench.index.server.requests if "range" not in request.headers
    ]


def test_the_best_wheel_for_the_environment_not_for_this_python(bench: Bench) -> None:
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tags = [
        f"{here}-{here}-manylinux_2_17_x86_64",
        "cp314-cp314t-manylinux_2_17_x86_64",
        "cp314-cp314-manylinux_2_42_x86_64",
        "cp314-cp314-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp314-cp314-manylinux_2_28_x86_64",
        "cp314-cp314-musllinux_1_2_x86_64",
        "cp314-cp314-manylinux_2_34_aarch64",
        "cp314-cp314-macosx_11_0_arm64",
        "cp314-cp314-win_amd64",
        "cp311-abi3-manylinux_2_17_x86_64",
        "py3-none-any",
    ]
    for tag in tags:
        bench.index.add("foo", "1.0", tag)
    assert bench.chosen("foo") == ["foo-1.0-cp314-cp314-manylinux_2_28_x86_64.whl"]
    assert bench.chosen("foo", platforms=(ARM,)) == ["foo-1.0-cp314-cp314-manylinux_2_34_aarch64.whl"]
    newer = TargetPython((3, 14, 7), (2, 43))
    assert bench.chosen("foo", target=newer) == ["foo-1.0-cp314-cp314-manylinux_2_42_x86_64.whl"]
    older = TargetPython((3, 13, 5), (2, 41))
    assert bench.chosen("foo", target=older) == ["foo-1.0-cp311-abi3-manylinux_2_17_x86_64.whl"]
    none = TargetPython((3, 14, 7), None)
    assert bench.chosen("foo", target=none) == ["foo-1.0-py3-none-any.whl"]


def test_a_higher_build_number_wins(bench: Bench) -> None:
    for build in ("1.0-2", "1.0-10", "1.0"):
        bench.index.add("foo", build)
    assert bench.chosen("foo") == ["foo-1.0-10-py3-none-any.whl"]


def test_the_newest_version_with_a_wheel_that_runs(bench: Bench) -> None:
    bench.index.add("foo", "1.0")
    bench.index.add("foo", "1.1", "cp315-cp315-manylinux_2_17_x86_64")
    bench.index.add_source("foo", "1.2")
    bench.index.add("foo", "1.3", **{"requires-python": ">=3.15"})
    assert bench.chosen("foo") == ["foo-1.0-py3-none-any.whl"]


def test_withdrawn_releases_only_when_pinned(bench: Bench) -> None:
    bench.index.add("foo", "1.0")
    bench.index.add("foo", "1.1", yanked="broken")
    assert bench.chosen("foo") == ["foo-1.0-py3-none-any.whl"]
    assert bench.chosen("foo==1.1") == ["foo-1.1-py3-none-any.whl"]
    with pytest.raises(ResolveError, match=r"withdrawn \(yanked\): 1\.1"):
        bench.resolve("foo>1.0")


def test_a_closure_with_markers_of_the_environment(bench: Bench) -> None:
    bench.index.add(
        "foo",
        "1.0",
        requires=[
            "bar>=1,<2",
            'windows; sys_platform == "win32"',
            'old; python_version < "3.14"',
            'new; python_full_version >= "3.14.7"',
            'arm; platform_machine == "aarch64"',
            'never; extra == "more"',
        ],
        extras=["more"],
    )
    for name in ("new", "arm", "never", "old", "windows"):
        bench.index.add(name, "1")
    bench.index.add("bar", "1.5", requires=["foo"])
    bench.index.add("bar", "2.0")
    resolution = bench.resolve("foo", (AMD, ARM))
    assert {source.purl: source.trees for source in resolution.sources} == {
        "pkg:pypi/arm@1": ["linux/arm64:tools.x"],
        "pkg:pypi/bar@1.5": ["linux/amd64:tools.x", "linux/arm64:tools.x"],
        "pkg:pypi/foo@1.0": ["linux/amd64:tools.x", "linux/arm64:tools.x"],
        "pkg:pypi/new@1": ["linux/amd64:tools.x", "linux/arm64:tools.x"],
    }


def test_extras(bench: Bench) -> None:
    bench.index.add("foo", "1.0", requires=['baz; extra == "more-of"', "bar[deep]"], extras=["More_Of"])
    bench.index.add("bar", "1", requires=['qux; extra == "deep"'], extras=["deep"])
    bench.index.add("baz", "1")
    bench.index.add("qux", "1")
    assert [name.partition("-")[0] for name in bench.chosen("foo")] == ["bar", "foo", "qux"]
    assert [name.partition("-")[0] for name in bench.chosen("foo[more.of]")] == ["bar", "baz", "foo", "qux"]
    with pytest.raises(ResolveError, match=r"foo\[moer\] 1\.0: has no extra moer \(it has: more-of\)"):
        bench.resolve("foo[moer]")


def test_extras_and_the_project_have_one_version(bench: Bench) -> None:
    bench.index.add("foo", "1.0", extras=["x"])
    bench.index.add("foo", "2.0", extras=["x"])
    bench.index.add("app", "1", requires=["foo[x]", "other"])
    bench.index.add("other", "1", requires=["foo<2"])
    assert bench.chosen("app") == [
        "app-1-py3-none-any.whl",
        "foo-1.0-py3-none-any.whl",
        "other-1-py3-none-any.whl",
    ]


def test_backtracks(bench: Bench) -> None:
    bench.index.add("app", "1", requires=["left", "right"])
    bench.index.add("left", "2", requires=["base>=2"])
    bench.index.add("left", "1", requires=["base>=1"])
    bench.index.add("right", "1", requires=["base<2"])
    bench.index.add("base", "1.5")
    bench.index.add("base", "2.5")
    assert [name[: name.index("-py3")] for name in bench.chosen("app")] == [
        "app-1",
        "base-1.5",
        "left-1",
        "right-1",
    ]


def test_a_conflict_names_who_wants_what(bench: Bench) -> None:
    bench.index.add("app", "1", requires=["left", "right"])
    bench.index.add("left", "1", requires=["base>=2"])
    bench.index.add("right", "1", requires=["base<2"])
    bench.index.add("base", "1.5")
    bench.index.add("base", "2.5")
    with pytest.raises(ResolveError) as caught:
        bench.resolve("app")
    text = str(caught.value)
    assert "tools.x (linux/amd64): app" in text
    assert "left 1 needs base>=2" in text
    assert "right 1 needs base<2" in text


def test_one_index_answers_for_a_project(bench: Bench) -> None:
    bench.index.add("private", "1.0", requires=["public"])
    bench.second.add("private", "99.0")
    bench.second.add("public", "1")
    assert bench.chosen("private") == ["private-1.0-py3-none-any.whl", "public-1-py3-none-any.whl"]
    assert "/simple/private/" not in bench.second.server.paths()


def test_an_index_that_fails_is_not_passed_over(bench: Bench) -> None:
    bench.index.server.script["/simple/private/"] = [serve.status(500)] * 9
    bench.second.add("private", "99.0")
    with pytest.raises(UnreachableError, match="500"):
        bench.resolve("private")


def test_no_such_project(bench: Bench) -> None:
    with pytest.raises(ResolveError) as caught:
        bench.resolve("foo")
    assert "no index has the project 'foo'" in str(caught.value)
    assert bench.index.url in str(caught.value)


def test_no_such_version_says_which_there_are(bench: Bench) -> None:
    for minor in range(9):
        bench.index.add("foo", f"1.{minor}")
    bench.index.add("foo", "2.0rc1")
    with pytest.raises(
        ResolveError, match=r"no version of foo meets >=3; the newest are 1\.8, 1\.7, 1\.6, 1\.5, 1\.4, …"
    ):
        bench.resolve("foo>=3")
    with pytest.raises(ResolveError, match=r"only pre-releases of foo meet >1\.9: 2\.0rc1"):
        bench.resolve("foo>1.9")


def test_a_wheel_for_others_only(bench: Bench) -> None:
    bench.index.add("foo", "1.0", "cp312-cp312-manylinux_2_17_x86_64")
    bench.index.add("foo", "1.0", "cp314-cp314-win_amd64")
    bench.index.add("bar", "1.0", "cp314-cp314-manylinux_2_50_x86_64")
    bench.index.add_source("baz", "1.0")
    bench.index.add("qux", "1.0", **{"requires-python": ">=3.15"})
    bench.index.add("app", "1.0", requires=["foo"])
    environment = r"CPython 3\.14\.7, glibc 2\.41 on linux/amd64"
    with pytest.raises(
        ResolveError, match=environment + "; there are wheels for cp312-cp312-manylinux_2_17_x86_64$"
    ):
        bench.resolve("foo")
    with pytest.raises(
        ResolveError, match=environment + "; there are wheels for cp314-cp314-manylinux_2_50_x86_64$"
    ):
        bench.resolve("bar")
    with pytest.raises(ResolveError, match=r"baz 1\.0 has no wheels, only its source"):
        bench.resolve("baz")
    with pytest.raises(
        ResolveError, match=r"qux 1\.0 needs Python >=3\.15; the environment has " + environment
    ):
        bench.resolve("qux")
    with pytest.raises(ResolveError, match=r"foo \(for app 1\.0\)"):
        bench.resolve("app")


def test_an_environment_without_python(bench: Bench) -> None:
    bench.index.add("foo", "1.0")
    for target in (None, TargetPython(None, (2, 41))):
        with pytest.raises(ResolveError, match="has no Python") as caught:
            bench.resolve("foo", target=target)
        assert 'add "python3"' in str(caught.value)


def test_an_index_without_digests_cannot_be_locked(bench: Bench) -> None:
    bench.index.add("foo", "1.0", hashes=False)
    with pytest.raises(ResolveError, match="publishes no SHA-256") as caught:
        bench.resolve("foo")
    assert "foo-1.0-py3-none-any.whl" in str(caught.value)


def test_a_size_that_the_index_does_not_say_is_asked_for(bench: Bench) -> None:
    name = bench.index.add("foo", "1.0", size=False)
    assert bench.resolve("foo").sources[0].size == len(bench.index.server.files[f"/files/{name}"])


@pytest.mark.parametrize("metadata", [True, False])
def test_what_was_read_of_a_wheel_is_not_read_again(bench: Bench, metadata: bool) -> None:
    bench.index.add("foo", "1.0", requires=["bar"], metadata=metadata)
    bench.index.add("bar", "1.0", metadata=metadata)
    first = bench.chosen("foo")
    bench.index.server.requests.clear()
    assert bench.chosen("foo") == first
    assert [path for path in bench.index.server.paths() if "/files/" in path] == []


def test_metadata_files_are_preferred_and_checked(bench: Bench) -> None:
    bench.index.add("foo", "1.0", requires=["bar"], metadata=True)
    name = bench.index.add("bar", "1.0", metadata=True)
    assert len(bench.chosen("foo")) == 2
    assert not [path for path in bench.index.server.paths() if path.endswith(".whl")]
    bench.forget()
    bench.index.server.files[f"/files/{name}.metadata"] += b"x"
    with pytest.raises(Exception, match="the metadata of bar-1.0") as caught:
        bench.resolve("foo")
    assert caught.value.status == 5
    del bench.index.server.files[f"/files/{name}.metadata"]
    assert len(bench.chosen("foo")) == 2, "a mirror that does not have it: the wheel has"


def test_metadata_is_read_from_a_big_wheel_without_downloading_it(bench: Bench) -> None:
    name = bench.index.add("foo", "1.0", requires=["bar"], padding=5_000_000)
    bench.index.add("bar", "1.0")
    assert len(bench.chosen("foo")) == 2
    asked = [
        request.headers["range"] for request in bench.index.server.requests if request.path.endswith(name)
    ]
    assert len(asked) == 1
    assert asked[0].startswith("bytes=49")
    bench.index.server.script[f"/files/{name}"] = [serve.no_ranges()]
    assert len(bench.chosen("foo")) == 2, "a server without ranges sends it whole"


def test_what_is_not_a_wheel(bench: Bench) -> None:
    name = bench.index.add("foo", "1.0")
    bench.index.server.files[f"/files/{name}"] = b"PK" + b"\0" * 500
    with pytest.raises(ResolveError, match="is not a wheel") as caught:
        bench.resolve("foo")
    assert name in str(caught.value)


@pytest.mark.parametrize("requirement", ["bar @ http://h.test/bar.whl", "bar ==="])
def test_dependencies_that_cannot_be_locked(bench: Bench, requirement: str) -> None:
    bench.index.add("foo", "1.0", requires=[requirement])
    with pytest.raises(ResolveError, match=r"foo.1\.0.*(at a URL|cannot be read)"):
        bench.resolve("foo")


def test_a_page_that_is_none(bench: Bench) -> None:
    bench.index.server.add("/simple/foo/", b"{not json", "application/json")
    with pytest.raises(Exception, match="is not a page of a Python package index") as caught:
        bench.resolve("foo")
    assert caught.value.status == 4


def test_offline(bench: Bench) -> None:
    with pytest.raises(OfflineError):
        bench.resolve("foo", offline=True)


def test_a_local_index_in_html(bench: Bench, tmp_path: Path) -> None:
    name = bench.index.add("foo", "1.0")
    data = bench.index.server.files[f"/files/{name}"]
    project = tmp_path / "simple" / "foo"
    project.mkdir(parents=True)
    (tmp_path / name).write_bytes(data)
    digest = Source(purl="", sha256="sha256:" + "0" * 64, trees=[]).sha256.of(data)
    (project / "index.html").write_text(f'<a href="../../{name}#sha256={digest.hex}">{name}</a>')
    config = Config(pypi=PypiConfig(indexes=[(tmp_path / "simple").as_uri()]))
    with Http(config, offline=True) as http:
        context = ResolveContext(
            http, config, Store(tmp_path / "s"), datetime.now(UTC), tmp_path, targets={AMD: TARGET}
        )
        tool = PypiTool.model_validate({"from": "pypi", "requirement": "foo"})
        (source,) = resolve("tools.x", tool, [AMD], context).sources
    assert (source.path, source.sha256, source.size) == (name, digest, len(data))


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(6)))
def test_the_order_of_a_page_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    made = [
        ("foo", "1.0", "py3-none-any", ["bar"]),
        ("foo", "1.0", "cp314-cp314-manylinux_2_17_x86_64", ["bar", "baz<2"]),
        ("bar", "2.0", "py3-none-any", []),
        ("bar", "1.0", "py3-none-any", []),
        ("baz", "1.0", "py3-none-any", ["bar<2"]),
        ("baz", "3.0", "py3-none-any", []),
    ]
    with serving() as server:
        index = Index(server)
        for position in order:
            name, version, tag, requires = made[position]
            index.add(name, version, tag, requires=requires)
        bench = Bench(tmp_path_factory.mktemp("order"), index, index)
        assert bench.chosen("foo") == [
            "bar-1.0-py3-none-any.whl",
            "baz-1.0-py3-none-any.whl",
            "foo-1.0-cp314-cp314-manylinux_2_17_x86_64.whl",
        ]
