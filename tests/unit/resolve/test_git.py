"""Locking commits, their submodules and descriptions; and Dawn by the version of a port."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packageurl import PackageURL

from lockbuild.config import Config, Mirror, NetworkConfig
from lockbuild.errors import FetchError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.model.requests import DawnRequest, DawnTool, GitRequest, GitTool, Request
from lockbuild.resolve import Resolution, ResolveContext, moved_tags, resolve
from lockbuild.store import Store
from lockbuild.transport.git.repositories import GitRepositories
from lockbuild.transport.http import Http
from tests.support.emscripten import EMSCRIPTEN, remote_port
from tests.support.git_server import Repository, new_repository

PLATFORMS = [Platform.parse("linux/amd64"), Platform.parse("linux/arm64")]
HOST = "https://git.invalid/team"


class World:
    """Repositories below one directory, which a mirror gives as ``https://git.invalid/team/NAME``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        config = Config(
            network=NetworkConfig(retries=0),
            mirrors=[
                Mirror(prefix=HOST, to=[f"file://{directory}/served"]),
                Mirror(prefix="https://github.com/google", to=[f"file://{directory}/served"]),
                Mirror(prefix=EMSCRIPTEN, to=[f"file://{directory}/served/emscripten"]),
            ],
        )
        http = Http(config, offline=True)
        git = GitRepositories(directory / "cache", config, offline=True)
        self.context = ResolveContext(
            http, config, Store(directory / "store"), datetime.now(UTC), directory, open_git=lambda: git
        )

    def repository(self, name: str) -> Repository:
        return new_repository(self.directory / "served" / name)

    def lock(self, request: Request, name: str = "sources.it") -> Resolution:
        return resolve(name, request, PLATFORMS, self.context)

    def fresh(self) -> World:
        """The same with nothing remembered."""
        return World(self.directory)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def wanted(name: str, rev: str = "main", **more: object) -> GitRequest:
    return GitRequest.model_validate({"from": "git", "url": f"{HOST}/{name}", "rev": rev, **more})


def places(resolution: Resolution) -> dict[str | None, tuple[str, str]]:
    return {source.at: (source.url or "", source.commit or "") for source in resolution.sources}


class TestCommit:
    def test_a_tag(self, world: World) -> None:
        repository = world.repository("a")
        commit = repository.commit({"f": "x"})
        repository.tag("v1", commit, annotated=True)
        resolution = world.lock(wanted("a", "v1"))
        (tree,), (source,) = resolution.trees, resolution.sources
        assert (tree.id, tree.unpack, tree.mount) == ("any:sources.it", "git", "/build/sources/it")
        assert tree.pins == {"rev": "v1", "commit": commit, "ref": "refs/tags/v1"}
        assert tree.parameters == {}
        assert (source.url, source.commit, source.at, source.sha256) == (f"{HOST}/a", commit, None, None)
        assert source.trees == [tree.id]

    def test_a_tool(self, world: World) -> None:
        commit = world.repository("a").commit({"f": "x"})
        request = GitTool.model_validate(
            {"from": "git", "url": f"{HOST}/a", "rev": commit, "exports": {"A": "$OUT"}}
        )
        (tree,) = world.lock(request, "tools.it").trees
        assert (tree.mount, tree.exports, tree.pins) == (
            "/opt/it",
            {"A": "$OUT"},
            {"rev": commit, "commit": commit},
        )

    def test_a_tool_that_git_reads(self, world: World) -> None:
        commit = world.repository("a").commit({"f": "x"})
        request = GitTool.model_validate(
            {"from": "git", "url": f"{HOST}/a", "rev": commit, "describe": True, "exports": {"A": "b"}}
        )
        (tree,) = world.lock(request, "tools.it").trees
        assert tree.exports == {
            "A": "b",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }

    def test_its_purl(self, world: World) -> None:
        from lockbuild.resolve.git import purl

        commit = "ab" * 20
        assert purl("https://github.com/Owner/Name.git", commit) == f"pkg:github/owner/name@{commit}"
        other = PackageURL.from_string(purl("https://git.invalid/team/sub/a.git", commit))
        assert (other.type, other.name, other.version) == ("generic", "a", commit)
        assert other.qualifiers == {"vcs_url": f"git+https://git.invalid/team/sub/a.git@{commit}"}
        local = PackageURL.from_string(purl("file:///srv/git/a", commit))
        assert local.name == "a"

    def test_no_such_revision(self, world: World) -> None:
        repository = world.repository("a")
        repository.tag("v1.0", repository.commit({"f": "x"}))
        with pytest.raises(ResolveError, match=r"no tag or branch 'v1'") as error:
            world.lock(wanted("a", "v1"))
        assert error.value.hint == "there is v1.0"

    def test_lfs_cannot_be_asked_for(self, world: World) -> None:
        world.repository("a").commit({"f": "x"})
        with pytest.raises(ResolveError, match="LFS"):
            world.lock(wanted("a", lfs="fetch"))

    def test_a_tag_that_moved_is_told(self, world: World) -> None:
        repository = world.repository("a")
        first = repository.commit({"f": "1"})
        repository.tag("v1", first)
        before = world.lock(wanted("a", "v1"))
        second = repository.commit({"f": "2"})
        repository.tag("v1", second)
        after = world.fresh().lock(wanted("a", "v1"))
        assert moved_tags(before, after) == [f"sources.it: the tag v1 moved from {first} to {second}"]
        assert moved_tags(before, before) == []
        branch = world.fresh().lock(wanted("a", "main"))
        assert moved_tags(branch, after) == []


class TestDescription:
    @pytest.mark.parametrize(
        ("rev", "describe", "annotated", "pin"),
        [
            ("v1", "v1-0-g{0}", "v1-0-g{0}", "v1"),
            ("light", "light-0-g{1}", "v1-1-g{1}", "light"),
            ("main", "light-1-g{2}", "v1-2-g{2}", "light-1-g{2:.7}"),
            ("old", "{3}", None, "{3:.7}"),
        ],
    )
    def test_it_stands_in_the_lock(
        self, world: World, rev: str, describe: str, annotated: str | None, pin: str
    ) -> None:
        repository = world.repository("a")
        old = repository.commit({"f": "0"}, branch="old")
        ids = [repository.commit({"f": str(number)}) for number in range(3)]
        repository.tag("v1", ids[0], annotated=True)
        repository.tag("light", ids[1])
        resolution = world.lock(wanted("a", rev, describe=True))
        (tree,) = resolution.trees
        expected = {"describe": describe.format(*ids, old), "abbrev": "7"}
        if annotated is not None:
            expected["describe-annotated"] = annotated.format(*ids, old)
        assert tree.parameters == expected
        assert tree.pins["describe"] == pin.format(*ids, old)
        assert set(places(resolution)) == {None, ".git"}
        assert len({source.identity for source in resolution.sources}) == 2

    def test_tags_that_came_later_are_seen(self, world: World) -> None:
        repository = world.repository("a")
        commit = repository.commit({"f": "0"})
        (before,) = world.lock(wanted("a", describe=True)).trees
        assert before.parameters["describe"] == commit
        repository.tag("v2", commit)
        (after,) = world.fresh().lock(wanted("a", describe=True)).trees
        assert after.parameters["describe"] == f"v2-0-g{commit}"
        repository.git("tag", "-d", "v2")
        (gone,) = world.fresh().lock(wanted("a", describe=True)).trees
        assert gone.parameters["describe"] == commit


class TestSubmodules:
    @pytest.fixture
    def nested(self, world: World) -> dict[str, str]:
        """``top`` has lib/one and lib/two, and lib/one has deep/three."""
        commits = {"three": world.repository("three").commit({"3": "3"})}
        commits["two"] = world.repository("two").commit({"2": "2"})
        commits["one"] = world.repository("one").commit(
            {"1": "1"}, submodules={"deep/three": (f"{HOST}/three", commits["three"])}
        )
        commits["top"] = world.repository("top").commit(
            {"0": "0"},
            submodules={"lib/one": ("../one", commits["one"]), "lib/two": (f"{HOST}/two", commits["two"])},
        )
        return commits

    def test_none_by_default(self, world: World, nested: dict[str, str]) -> None:
        assert set(places(world.lock(wanted("top")))) == {None}

    def test_all(self, world: World, nested: dict[str, str]) -> None:
        assert places(world.lock(wanted("top", submodules=True))) == {
            None: (f"{HOST}/top", nested["top"]),
            "lib/one": (f"{HOST}/one", nested["one"]),
            "lib/one/deep/three": (f"{HOST}/three", nested["three"]),
            "lib/two": (f"{HOST}/two", nested["two"]),
        }

    @pytest.mark.parametrize(
        ("named", "found"),
        [
            (["lib/two"], {"lib/two"}),
            (["lib/one"], {"lib/one", "lib/one/deep/three"}),
            (["lib/one/deep/three"], {"lib/one", "lib/one/deep/three"}),
            (["lib/two", "lib/one/deep/three"], {"lib/two", "lib/one", "lib/one/deep/three"}),
        ],
    )
    def test_some(self, world: World, nested: dict[str, str], named: list[str], found: set[str]) -> None:
        assert set(places(world.lock(wanted("top", submodules=named)))) == {None, *found}

    def test_one_that_is_none(self, world: World, nested: dict[str, str]) -> None:
        with pytest.raises(ResolveError) as error:
            world.lock(wanted("top", submodules=["lib/three"]))
        assert "no submodule at 'lib/three' (there is: lib/one, lib/two)" in str(error.value)

    def test_without_any(self, world: World) -> None:
        world.repository("a").commit({"f": "x"})
        assert set(places(world.lock(wanted("a", submodules=True)))) == {None}

    @pytest.mark.parametrize(
        ("url", "absolute"),
        [
            ("../b", f"{HOST}/b"),
            ("../../team/b", f"{HOST}/b"),
            ("../b.git", f"{HOST}/b.git"),
            ("./sub", f"{HOST}/a/sub"),
            ("./../b/", f"{HOST}/b"),
        ],
    )
    def test_relative_urls(self, url: str, absolute: str) -> None:
        from lockbuild.resolve.submodules import _absolute

        assert _absolute(url, f"{HOST}/a", "x") == absolute
        assert _absolute(url, f"{HOST}/a/", "x") == absolute

    def test_the_way_of_scp(self) -> None:
        from lockbuild.resolve.submodules import _absolute

        assert _absolute("git@h.test:team/b.git", f"{HOST}/a", "x") == "ssh://git@h.test/team/b.git"

    @pytest.mark.parametrize(
        "url",
        [
            "ext::sh -c 'touch pwned'",
            "--upload-pack=touch pwned",
            "-oProxyCommand=touch pwned",
            "ssh://-oProxyCommand=touch/x",
            "ssh://-oProxyCommand=touch@h.test/x",
            "file:///etc",
            "/etc",
            "../../../../../etc",
            "../x/../../../etc",
            "git://h.test/x",
            "https://user:secret@h.test/x",
            "https://h.test/a\tb",
            "http://",
        ],
    )
    def test_urls_that_must_not_be_used(self, world: World, url: str) -> None:
        world.repository("a").commit({"f": "x"}, submodules={"sub": (url, "ab" * 20)})
        with pytest.raises((ResolveError, FetchError)) as error:
            world.lock(wanted("a", submodules=True))
        assert isinstance(error.value, ResolveError) or "gitmodules" in str(error.value)
        assert "secret" not in str(error.value)
        assert world.lock(wanted("a")).sources

    def test_local_ones_of_a_local_repository(self, world: World) -> None:
        inner = world.repository("inner")
        commit = inner.commit({"f": "x"})
        outer = world.repository("outer")
        outer.commit({"f": "x"}, submodules={"sub": (str(inner.path), commit), "rel": ("../inner", commit)})
        request = GitRequest.model_validate(
            {"from": "git", "url": outer.url, "rev": "main", "submodules": True}
        )
        found = places(world.lock(request))
        assert found["sub"] == (inner.url, commit)
        assert found["rel"] == (inner.url, commit)

    @pytest.mark.parametrize("path", ["../outside", "/outside", ".git/hooks", "a/../../b"])
    def test_paths_that_lead_elsewhere(self, world: World, path: str) -> None:
        repository = world.repository("a")
        inner = world.repository("inner").commit({"f": "x"})
        repository.commit(
            {"f": "x", ".gitmodules": f'[submodule "x"]\n\tpath = {path}\n\turl = ../inner\n'},
        )
        assert set(places(world.lock(wanted("a", submodules=True)))) == {None}
        data = f"160000 {inner}\tsub\n".encode()
        repository.git("update-index", "--index-info", stdin=data)
        repository.commit(tree=repository.git("write-tree"))
        with pytest.raises(ResolveError, match="no URL"):
            world.fresh().lock(wanted("a", submodules=True))

    def test_one_that_is_switched_off(self, world: World) -> None:
        commit = world.repository("inner").commit({"f": "x"})
        repository = world.repository("a")
        modules = '[submodule "s"]\n\tpath = sub\n\turl = ../inner\n\tupdate = none\n'
        repository.commit({"f": "x"}, submodules={"sub": ("../inner", commit)})
        repository.commit({".gitmodules": modules})
        assert set(places(world.lock(wanted("a", submodules=True)))) == {None}
        assert set(places(world.lock(wanted("a", submodules=["sub"])))) == {None, "sub"}

    def test_a_file_that_cannot_be_read(self, world: World) -> None:
        repository = world.repository("a")
        repository.commit({"f": "x"}, submodules={"sub": ("../inner", "ab" * 20)})
        repository.commit({".gitmodules": "[submodule\n\tpath = "})
        with pytest.raises((ResolveError, FetchError), match="gitmodules"):
            world.lock(wanted("a", submodules=True))

    def test_one_that_includes_another_file(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "other").write_text('[submodule "s"]\n\tpath = sub\n\turl = https://h.test/x\n')
        repository = world.repository("a")
        repository.commit({"f": "x"}, submodules={"sub": ("../inner", "ab" * 20)})
        repository.commit({".gitmodules": f"[include]\n\tpath = {tmp_path}/other\n"})
        with pytest.raises(ResolveError, match="no URL"):
            world.lock(wanted("a", submodules=True))

    def test_the_same_one_twice(self, world: World) -> None:
        commit = world.repository("inner").commit({"f": "x"})
        world.repository("a").commit(
            {"f": "x"}, submodules={"s1": ("../inner", commit), "s2": ("../inner", commit)}
        )
        resolution = world.lock(wanted("a", submodules=True))
        assert set(places(resolution)) == {None, "s1", "s2"}


class TestExclude:
    def test_each_source_has_its_own(self, world: World) -> None:
        inner = world.repository("inner").commit({"docs/i": "x", "f": "x"})
        other = world.repository("other").commit({"f": "x"})
        world.repository("a").commit(
            {"test/1": "1", "f": "x"}, submodules={"sub": ("../inner", inner), "other": ("../other", other)}
        )
        request = wanted("a", submodules=True, describe=True, exclude=["sub/docs", "test/", "other"])
        resolution = world.lock(request)
        assert {source.at: source.exclude for source in resolution.sources} == {
            None: ["other", "test"],
            ".git": ["other", "test"],
            "sub": ["docs"],
        }
        whole = world.lock(wanted("a"))
        assert whole.sources[0].exclude is None
        assert whole.sources[0].identity != resolution.sources[0].identity

    def test_what_is_nowhere(self, world: World) -> None:
        world.repository("a").commit({"f": "x"})
        with pytest.raises(ResolveError, match="there is no 'tests' to leave out"):
            world.lock(wanted("a", exclude=["tests"]))


class TestDawn:
    def test_the_tag_decides(self, world: World) -> None:
        dawn = world.repository("dawn")
        old = dawn.commit({"f": "old"})
        dawn.tag("v20251002.162335", old)
        new = dawn.commit({"f": "new"})
        dawn.tag("v20260423.175430", new)
        for version, commit in (("v20251002.162335", old), ("v20260423.175430", new)):
            resolution = self._resolved(world, version)
            (tree,), (source,) = resolution.trees, resolution.sources
            assert source.commit == commit
            assert source.url == "https://dawn.googlesource.com/dawn"
            assert tree.pins["tag"] == version
            assert tree.pins["commit"] == commit

    def test_a_tool(self, world: World) -> None:
        dawn = world.repository("dawn")
        dawn.tag("v1", dawn.commit({"f": "x"}))
        request = DawnTool.model_validate({"from": "dawn", "mount": "/opt/dawn-source"})
        context = replace(world.context, resolved={"tools.emdawnwebgpu": port("v1")})
        (tree,) = resolve("tools.dawn", request, PLATFORMS, context).trees
        assert (tree.unpack, tree.mount) == ("git", "/opt/dawn-source")

    def test_a_version_without_a_tag(self, world: World) -> None:
        dawn = world.repository("dawn")
        dawn.tag("v20251002.162335", dawn.commit({"f": "x"}))
        with pytest.raises(ResolveError) as error:
            self._resolved(world, "v20251002.162336")
        assert error.value.hint == "there is v20251002.162335"

    def test_what_it_does_not_need_of_it(self, world: World) -> None:
        inner = world.repository("inner").commit({"i": "x"})
        dawn = world.repository("dawn")
        url = f"{HOST}/inner"
        top = dawn.commit({"cts/big": "x", "f": "x"}, submodules={"a": (url, inner), "b": (url, inner)})
        dawn.tag("v1", top)
        resolution = self._lock(world, {}, version="v1", submodules=["b"], exclude=["cts"])
        assert {source.at: (source.commit, source.exclude) for source in resolution.sources} == {
            None: (top, ["cts"]),
            "b": (inner, None),
        }

    def test_a_release_that_is_said(self, world: World) -> None:
        dawn = world.repository("dawn")
        first = dawn.commit({"f": "1"})
        dawn.tag("v1", first)
        dawn.tag("v2", dawn.commit({"f": "2"}))
        (tree,) = self._lock(world, {}, version="v1").trees
        assert (tree.pins["tag"], tree.pins["commit"]) == ("v1", first)
        with pytest.raises(ResolveError, match="v3") as error:
            self._lock(world, {}, version="v3")
        assert error.value.hint == "there is v1, v2"

    @pytest.mark.parametrize(
        ("resolved", "of", "tag"),
        [
            ({"base": "6.0.5~dfsg-5"}, None, "v2"),
            ({"tools.sdk": "4.0.19"}, None, "v1"),
            ({"base": "6.0.5~dfsg-5", "tools.sdk": "4.0.19"}, None, "v1"),
            ({"tools.old": "4.0.19", "tools.new": "6.0.5"}, "new", "v2"),
            ({"tools.sdk": "6.0.5", "tools.emdawnwebgpu": "port v1"}, None, "v1"),
            ({"tools.sdk": "6.0.5", "tools.bindings": "port v1"}, None, "v1"),
            ({"tools.sdk": "6.0.5", "tools.emdawnwebgpu": "port v1"}, "sdk", "v2"),
            (
                {"tools.sdk": "6.0.5", "tools.other": "port v1", "tools.emdawnwebgpu": "port v2"},
                "other",
                "v1",
            ),
        ],
    )
    def test_what_the_emscripten_pins_where_there_is_no_port(
        self, world: World, resolved: dict[str, str], of: str | None, tag: str
    ) -> None:
        dawn, emscripten = world.repository("dawn"), world.repository("emscripten")
        for version, release in (("4.0.19", "v1"), ("6.0.5", "v2")):
            dawn.tag(release, dawn.commit({"f": release}))
            file = {"tools/ports/emdawnwebgpu.py": remote_port("emdawnwebgpu", release)}
            emscripten.tag(version, emscripten.commit(file))
        (tree,) = self._lock(world, resolved, **({} if of is None else {"of": of})).trees
        assert tree.pins["tag"] == tag
        pinned = {"v1": "4.0.19", "v2": "6.0.5"}[tag]
        follows_a_port = any(said.startswith("port") for said in resolved.values()) and of != "sdk"
        assert tree.pins.get("emscripten") == (None if follows_a_port else pinned)

    @pytest.mark.parametrize(
        ("resolved", "said"),
        [
            ({}, "the environment has none"),
            ({"tools.sdk": "4.0.9"}, "needs Emscripten 4.0.10 or newer, and the environment has 4.0.9"),
            ({"tools.sdk": "4.0.10"}, "Emscripten 4.0.10 has no port 'emdawnwebgpu'"),
        ],
    )
    def test_nothing_that_says_which(self, world: World, resolved: dict[str, str], said: str) -> None:
        emscripten = world.repository("emscripten")
        for version in ("4.0.9", "4.0.10"):
            emscripten.tag(version, emscripten.commit({"tools/ports/zlib.py": version}))
        with pytest.raises(ResolveError) as error:
            self._lock(world, resolved)
        assert said in error.value.what
        assert (error.value.on or "").startswith("sources.dawn")
        assert 'say which release of emdawnwebgpu it is: version = "v2' in (error.value.hint or "")

    def _lock(self, world: World, resolved: dict[str, str], **request: object) -> Resolution:
        """With SDKs and ports (``port VERSION``) in the environment, or an Emscripten in its base."""
        made = {key: environment(key, said) for key, said in resolved.items()}
        wanted = DawnRequest.model_validate({"from": "dawn", **request})
        return resolve("sources.dawn", wanted, PLATFORMS, replace(world.context, resolved=made))

    def _resolved(self, world: World, version: str) -> Resolution:
        context = replace(world.context, resolved={"tools.emdawnwebgpu": port(version)})
        return resolve("sources.dawn", DawnRequest.model_validate({"from": "dawn"}), PLATFORMS, context)


def environment(key: str, said: str) -> Resolution:
    """What a base with Emscripten, an SDK or the bindings (``port VERSION``) is locked to."""
    if key == "base":
        purl = f"pkg:deb/debian/emscripten@{said}?arch=all"
        trees = ["linux/amd64:base"]
        return Resolution((), (Source(purl=purl, path="a.deb", sha256=Digest.of(b""), trees=trees),))
    if said.startswith("port"):
        return port(said.removeprefix("port "), key)
    tree = LockedTree(
        name=key, platform=PLATFORMS[0], unpack="emsdk", mount="/opt/emsdk", pins={"emscripten": said}
    )
    return Resolution((tree,), ())


def port(version: str, key: str = "tools.emdawnwebgpu") -> Resolution:
    place = "elsewhere" if key == "tools.other" else "emdawnwebgpu"
    tree = LockedTree(
        name=key, platform="any", unpack="port", mount=f"/opt/ports/{place}", pins={"version": version}
    )
    return Resolution((tree,), ())
