"""Reading repositories over real servers: what is fetched, how often, from where, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.config import Config, HostConfig, Mirror, NetworkConfig
from lockbuild.errors import FetchError, IntegrityError, ResolveError
from lockbuild.events import Note
from lockbuild.transport.failures import (
    NotFoundError,
    OfflineError,
    RefusedError,
    TransferError,
    UnreachableError,
)
from lockbuild.transport.git.repositories import Contents, GitRepositories
from tests.support.git_server import (
    GitRequest,
    GitServer,
    Handler,
    Repository,
    new_repository,
    run_git,
    serving_git,
)
from tests.support.http_server import make_certificate

QUICK = NetworkConfig(retries=0, timeout=5)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving_git(tmp_path / "served") as running:
        yield running


@pytest.fixture
def project(server: GitServer) -> Repository:
    """Three commits, two tags."""
    repository = server.repository("project")
    first = repository.commit({"a.txt": "one\n", "dir/b.txt": "b\n", "dir/sub/c.txt": "c\n"})
    repository.tag("v1", first, annotated=True)
    second = repository.commit({"a.txt": "two\n"}, symlinks={"link": "dir/b.txt"})
    repository.tag("v1.5", second)
    repository.commit({"run.sh": "#!/bin/sh\n"}, executable=("run.sh",))
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def opened(cache: Path, config: Config | None = None, *, offline: bool = False) -> GitRepositories:
    return GitRepositories(cache, config or Config(network=QUICK), offline=offline)


def url_of(server: GitServer) -> str:
    return f"{server.url}/project"


class TestReferences:
    def test_tags_are_peeled(self, server: GitServer, project: Repository, cache: Path) -> None:
        refs = opened(cache).refs(url_of(server))
        assert refs == {
            "refs/heads/main": project.git("rev-parse", "main"),
            "refs/tags/v1": project.git("rev-parse", "v1^{commit}"),
            "refs/tags/v1.5": project.git("rev-parse", "v1.5"),
        }

    def test_a_tag_comes_before_a_branch(self, server: GitServer, project: Repository, cache: Path) -> None:
        project.git("update-ref", "refs/heads/v1", "main")
        git = opened(cache)
        assert git.resolve(url_of(server), "v1") == project.git("rev-parse", "v1^{commit}")
        assert git.resolve(url_of(server), "refs/heads/v1") == project.git("rev-parse", "main")
        assert git.revision(url_of(server), "main").reference == "refs/heads/main"

    def test_a_reference_that_is_neither(self, server: GitServer, project: Repository, cache: Path) -> None:
        project.git("update-ref", "refs/changes/01/1", "v1.5")
        assert opened(cache).resolve(url_of(server), "refs/changes/01/1") == project.git("rev-parse", "v1.5")

    def test_a_commit_id_asks_nobody(self, server: GitServer, cache: Path) -> None:
        assert opened(cache).resolve(url_of(server), "ab" * 20) == "ab" * 20
        assert server.requests == []

    def test_what_is_like_it_is_named(self, server: GitServer, project: Repository, cache: Path) -> None:
        with pytest.raises(ResolveError) as error:
            opened(cache).resolve(url_of(server), "v1.6")
        assert "there is no tag or branch 'v1.6'" in str(error.value)
        assert "v1.5" in (error.value.hint or "")

    def test_a_short_id_is_none(self, server: GitServer, project: Repository, cache: Path) -> None:
        short = project.git("rev-parse", "main")[:10]
        with pytest.raises(ResolveError, match="full id"):
            opened(cache).resolve(url_of(server), short)

    def test_they_are_asked_for_once(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        git.resolve(url_of(server), "v1")
        asked = len(server.requests)
        git.resolve(url_of(server), "main")
        assert len(server.requests) == asked

    def test_another_hash_is_told(self, server: GitServer, cache: Path) -> None:
        (server.root / "sha256").mkdir(parents=True)
        run_git("init", "-q", "--bare", "--object-format=sha256", ".", cwd=server.root / "sha256")
        tree = run_git("hash-object", "-t", "tree", "-w", "--stdin", cwd=server.root / "sha256")
        commit = run_git("commit-tree", tree, "-m", "x", cwd=server.root / "sha256")
        run_git("update-ref", "refs/heads/main", commit, cwd=server.root / "sha256")
        with pytest.raises(ResolveError, match="SHA-256"):
            opened(cache).resolve(f"{server.url}/sha256", "main")


@pytest.mark.parametrize("protocol", [True, False], ids=["protocol 2", "protocol 0"])
@pytest.mark.parametrize("filters", [True, False], ids=["partial", "whole"])
class TestContents:
    @pytest.fixture(autouse=True)
    def _configured(self, server: GitServer, project: Repository, protocol: bool, filters: bool) -> None:
        server.protocol = protocol
        project.configure("uploadpack.allowFilter", "true" if filters else "false")

    def test_files(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        commit = git.resolve(url_of(server), "v1.5")
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"
        assert git.read(url_of(server), commit, "dir/sub/c.txt") == b"c\n"
        assert git.read(url_of(server), commit, "link") == b"dir/b.txt"
        for absent in ("b.txt", "dir", "dir/nothing", "a.txt/x", "dir/sub/c.txt/x"):
            assert git.read(url_of(server), commit, absent) is None
        assert git.read_all(url_of(server), commit, ["a.txt", "dir/b.txt", "no"]) == {
            "a.txt": b"two\n",
            "dir/b.txt": b"b\n",
        }

    def test_lists(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        commit = git.resolve(url_of(server), "main")
        assert git.list(url_of(server), commit, "") == ["a.txt", "link", "run.sh"]
        assert git.list(url_of(server), commit, "dir") == ["b.txt"]
        assert git.list(url_of(server), commit, "a.txt") == []
        assert git.list(url_of(server), commit, "nowhere/at/all") == []
        assert git.time(url_of(server), commit).timestamp() == int(
            project.git("show", "-s", "--format=%ct", commit)
        )

    def test_every_entry(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        contents = git.contents(url_of(server), git.resolve(url_of(server), "main"))
        listed = project.git("ls-tree", "-r", "-t", "main").splitlines()
        assert sorted(entry.path.decode() for entry in contents.entries) == sorted(
            line.partition("\t")[2] for line in listed
        )
        files = [entry for entry in contents.entries if entry.kind in ("file", "executable", "symlink")]
        with git.files(url_of(server), contents.commit.object_id, files) as stream:
            found = {
                entry.path: (size, b"".join(chunks))
                for entry, (size, chunks) in zip(files, stream, strict=True)
            }
        assert found[b"run.sh"] == (10, b"#!/bin/sh\n")
        assert len(found) == 5

    def test_nothing_comes_twice(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        commit = git.resolve(url_of(server), "v1.5")
        _everything(git, url_of(server), commit)
        fetched = len(server.sent())
        assert fetched >= 1
        _everything(git, url_of(server), commit)
        again = opened(cache, offline=True)
        assert _everything(again, url_of(server), commit) == _everything(git, url_of(server), commit)
        assert len(server.sent()) == fetched

    def test_a_commit_that_nothing_refers_to(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        commit = project.git("rev-parse", "v1.5")
        project.git("tag", "-d", "v1.5")
        git = opened(cache)
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"

    def test_a_commit_that_is_not_there(self, server: GitServer, project: Repository, cache: Path) -> None:
        with pytest.raises(NotFoundError) as error:
            opened(cache).read(url_of(server), "ab" * 20, "a.txt")
        assert "ab" * 20 in error.value.what
        assert error.value.on == url_of(server)

    def test_describe(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache)
        said = git.describe(url_of(server), git.resolve(url_of(server), "main"))
        assert said.tag is not None
        assert (said.tag.name, said.tag.distance, said.abbrev) == ("v1.5", 1, 7)
        assert said.annotated is not None
        assert (said.annotated.name, said.annotated.distance) == ("v1", 2)


def _everything(git: GitRepositories, url: str, commit: str) -> dict[bytes, bytes]:
    contents: Contents = git.contents(url, commit)
    files = [entry for entry in contents.entries if entry.kind in ("file", "executable", "symlink")]
    with git.files(url, commit, files) as stream:
        return {entry.path: b"".join(chunks) for entry, (_, chunks) in zip(files, stream, strict=True)}


class TestPartially:
    def test_files_do_not_come_with_the_commit(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        project.configure("uploadpack.allowFilter", "true")
        big = os.urandom(300_000)
        commit = project.commit({"big": big})
        git = opened(cache)
        assert git.list(url_of(server), commit, "dir") == ["b.txt"]
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"
        assert _size(cache) < 100_000
        assert git.read(url_of(server), commit, "big") == big
        assert _size(cache) > 300_000

    def test_a_local_repository_needs_no_configuration(self, tmp_path: Path, cache: Path) -> None:
        repository = new_repository(tmp_path / "local")
        repository.configure("uploadpack.allowFilter", "false")
        repository.configure("uploadpack.allowAnySHA1InWant", "false")
        commit = repository.commit({"a": "a\n", "big": os.urandom(300_000)})
        git = opened(cache, offline=True)
        assert git.read(repository.url, commit, "a") == b"a\n"

    def test_no_history_comes(self, server: GitServer, project: Repository, cache: Path) -> None:
        for number in range(20):
            commit = project.commit({"random": os.urandom(20_000), "n": str(number)})
        git = opened(cache)
        git.read(url_of(server), commit, "n")
        assert _size(cache) < 60_000


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


class TestOldServers:
    def test_one_that_gives_only_what_its_references_name(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        server.protocol = False
        git = opened(cache)
        tip = git.resolve(url_of(server), "v1.5")
        assert git.read(url_of(server), tip, "a.txt") == b"two\n"
        older = project.git("rev-parse", "main~1^{commit}")
        project.git("tag", "-d", "v1.5")
        other = opened(cache.with_name("other"))
        assert other.read(url_of(server), older, "a.txt") == b"two\n"

    def test_one_that_only_serves_files(self, server: GitServer, project: Repository, cache: Path) -> None:
        project.git("repack", "-adq")
        project.git("update-server-info")

        def dumb(handler: Handler, request: GitRequest) -> bool:
            path = server.root / request.path.partition("?")[0].lstrip("/")
            handler.reply(200, path.read_bytes()) if path.is_file() else handler.reply(404, b"")
            return True

        server.before = dumb
        git = opened(cache)
        assert git.read(url_of(server), git.resolve(url_of(server), "v1"), "a.txt") == b"one\n"


class TestMirrors:
    def test_a_mirror_stands_in(self, project: Repository, cache: Path) -> None:
        config = Config(
            network=QUICK,
            mirrors=[Mirror(prefix="https://git.invalid/some", to=[f"file://{project.path.parent}"])],
        )
        git = opened(cache, config, offline=True)
        commit = git.resolve("https://git.invalid/some/project", "v1")
        assert git.read("https://git.invalid/some/project", commit, "a.txt") == b"one\n"

    def test_they_are_tried_in_order(self, server: GitServer, project: Repository, cache: Path) -> None:
        stale = new_repository(project.path.with_name("stale"))
        stale.commit({"a.txt": "other\n"})
        config = Config(
            network=QUICK,
            mirrors=[
                Mirror(
                    prefix="https://git.invalid/project",
                    to=[f"file://{project.path.with_name('gone')}", stale.url, url_of(server)],
                )
            ],
        )
        git = opened(cache, config)
        url = "https://git.invalid/project"
        commit = git.resolve(url, "v1.5")
        assert commit == project.git("rev-parse", "v1.5")
        assert git.read(url, commit, "a.txt") == b"two\n"

    def test_one_that_is_not_sound_is_passed_over(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        commit = project.git("rev-parse", "main")
        with serving_git(server.root) as evil:

            def garbage(handler: Handler, request: GitRequest) -> bool:
                if request.method != "POST" or b"command=fetch" not in request.body:
                    return False
                tree = project.git("rev-parse", "main^{tree}").encode()
                evil.rewrite = lambda body: body.replace(commit.encode(), tree)
                return False

            evil.before = garbage
            mirror = Mirror(prefix="https://git.invalid/x", to=[url_of(evil), url_of(server)])
            git = opened(cache, Config(network=QUICK, mirrors=[mirror]))
            assert git.read("https://git.invalid/x", commit, "a.txt") == b"two\n"

    def test_what_each_did_wrong_is_told(self, tmp_path: Path, cache: Path) -> None:
        empty = new_repository(tmp_path / "empty")
        mirror = Mirror(prefix="https://git.invalid/x", to=[f"file://{tmp_path}/gone", empty.url])
        with pytest.raises(NotFoundError) as error:
            opened(cache, Config(network=QUICK, mirrors=[mirror])).read(
                "https://git.invalid/x", "ab" * 20, "a"
            )
        assert error.value.on == "https://git.invalid/x"
        assert f"file://{tmp_path}/gone: there is no such repository" in error.value.what
        assert f"{empty.url}: it does not have what was asked for" in error.value.what

    def test_a_copy_of_a_well_known_repository(self, tmp_path: Path, cache: Path) -> None:
        dawn = new_repository(tmp_path / "dawn")
        commit = dawn.commit({"a": "a\n"})
        dawn.tag("v20251002.162335", commit)
        for prefix in ("https://github.com/google", "https://dawn.googlesource.com"):
            config = Config(network=QUICK, mirrors=[Mirror(prefix=prefix, to=[f"file://{tmp_path}"])])
            git = opened(cache, config, offline=True)
            assert git.resolve("https://dawn.googlesource.com/dawn", "v20251002.162335") == commit
            assert list(git.places("https://dawn.googlesource.com/dawn")) == [dawn.url]


class TestOffline:
    def test_it_is_told_at_once(self, server: GitServer, project: Repository, cache: Path) -> None:
        git = opened(cache, offline=True)
        begun = time.monotonic()
        with pytest.raises(OfflineError) as error:
            git.read(url_of(server), "ab" * 20, "a.txt")
        assert time.monotonic() - begun < 1
        assert "ab" * 20 in str(error.value)
        assert url_of(server) in str(error.value)
        with pytest.raises(OfflineError, match="its references"):
            git.resolve(url_of(server), "v1")
        assert server.requests == []

    def test_files_that_are_not_cached(self, server: GitServer, project: Repository, cache: Path) -> None:
        project.configure("uploadpack.allowFilter", "true")
        commit = project.git("rev-parse", "main")
        online = opened(cache)
        assert online.read(url_of(server), commit, "a.txt") == b"two\n"
        git = opened(cache, offline=True)
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"
        with pytest.raises(OfflineError):
            git.read(url_of(server), commit, "dir/b.txt")


class TestCredentials:
    def test_they_are_shown_to_their_host_and_nobody_else(
        self, server: GitServer, project: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.credentials = ("x-access-token", "s3cret")
        monkeypatch.setenv("THE_TOKEN", "s3cret")
        host = server.url
        with pytest.raises(RefusedError) as error:
            opened(cache).resolve(url_of(server), "v1")
        assert "netrc" in (error.value.hint or "")
        config = Config(network=QUICK, hosts=[HostConfig(host=host, token_env="THE_TOKEN")])
        assert opened(cache, config).resolve(url_of(server), "v1")
        with serving_git(server.root) as other:
            assert opened(cache, config).resolve(url_of(other), "v1")
            assert all("authorization" not in request.headers for request in other.requests)

    def test_no_redirect_takes_them_along(
        self, server: GitServer, project: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("THE_TOKEN", "s3cret")
        with serving_git(server.root) as other:
            server.before = _redirecting(other.url)
            config = Config(network=QUICK, hosts=[HostConfig(host=server.url, token_env="THE_TOKEN")])
            with pytest.raises(RefusedError, match="redirect"):
                opened(cache, config).resolve(url_of(server), "v1")
            assert other.requests == []

    def test_without_them_it_is_followed(self, server: GitServer, project: Repository, cache: Path) -> None:
        with serving_git(server.root) as other:
            server.before = _redirecting(other.url)
            git = opened(cache)
            assert git.read(url_of(server), git.resolve(url_of(server), "v1"), "a.txt") == b"one\n"

    def test_none_leads_to_local_files(self, server: GitServer, project: Repository, cache: Path) -> None:
        server.before = _redirecting("file://" + str(server.root))
        with pytest.raises(TransferError):
            opened(cache).resolve(url_of(server), "v1")

    def test_they_stand_in_no_argument(
        self, server: GitServer, project: Repository, cache: Path, tmp_path: Path
    ) -> None:
        server.credentials = ("user", "s3cret")
        arguments: list[bytes] = []

        def look(handler: Handler, request: GitRequest) -> bool:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    arguments.append((process / "cmdline").read_bytes())
                except OSError:
                    continue
            return False

        server.before = look
        mirror = Mirror(
            prefix="https://git.invalid/x", to=[url_of(server).replace("http://", "http://user:s3cret@")]
        )
        git = opened(cache, Config(network=QUICK, mirrors=[mirror]))
        assert git.resolve("https://git.invalid/x", "v1")
        assert any(b"remote-http" in line for line in arguments)
        assert not any(b"s3cret" in line for line in arguments)
        assert b"s3cret" not in b"".join(p.read_bytes() for p in cache.rglob("*") if p.is_file())

    def test_an_authority_of_ones_own(self, tmp_path: Path, cache: Path) -> None:
        certificate = make_certificate(tmp_path)
        with serving_git(tmp_path / "served", certificate=certificate) as server:
            commit = server.repository("project").commit({"a.txt": "a\n"})
            with pytest.raises(UnreachableError, match="certificate"):
                opened(cache).read(url_of(server), commit, "a.txt")
            network = NetworkConfig(retries=0, ca=[str(tmp_path / "certificate.pem")])
            git = opened(cache, Config(network=network))
            assert git.read(url_of(server), commit, "a.txt") == b"a\n"


def _redirecting(url: str):  # type: ignore[no-untyped-def]
    def redirect(handler: Handler, request: GitRequest) -> bool:
        handler.reply(301, b"", {"Location": url + request.path})
        return True

    return redirect


class TestHostileServers:
    def test_another_commit_than_was_asked_for(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        wanted = project.git("rev-parse", "main")
        other = project.git("rev-parse", "v1^{commit}")
        server.rewrite = lambda body: body.replace(wanted.encode(), other.encode())
        with pytest.raises((IntegrityError, NotFoundError)) as error:
            opened(cache).read(url_of(server), wanted, "a.txt")
        assert wanted in str(error.value)
        assert not opened(cache).has(url_of(server), wanted)

    def test_another_file_than_was_asked_for(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        project.configure("uploadpack.allowFilter", "true")
        commit = project.git("rev-parse", "main")
        git = opened(cache)
        git.list(url_of(server), commit, "")
        wanted, other = project.git("rev-parse", "main:a.txt"), project.git("rev-parse", "main:dir/b.txt")
        server.rewrite = lambda body: body.replace(wanted.encode(), other.encode())
        with pytest.raises(NotFoundError) as error:
            git.read(url_of(server), commit, "a.txt")
        assert "a.txt" in str(error.value) or wanted in str(error.value)

    @pytest.mark.parametrize(
        "name", [b".git", b".GIT", b".Git", b"git~1", b"..", b".", b"a/../b", b".gi\xe2\x80\x8ct"]
    )
    def test_names_that_lead_elsewhere(
        self, server: GitServer, cache: Path, name: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository = server.repository("project")
        blob = repository.blob(b"[core]\n")
        inner = repository.raw_tree(("100644", b"config", blob))
        commit = repository.commit(tree=repository.raw_tree(("40000", name, inner)))
        with pytest.raises(IntegrityError) as error:
            opened(cache).contents(url_of(server), commit)
        assert url_of(server) in str(error.value)
        # It does not hang on git's own check.
        from lockbuild.transport.git import process as git_process

        monkeypatch.setitem(git_process._ALWAYS, "fetch.fsckObjects", "false")  # type: ignore[arg-type]
        with pytest.raises(IntegrityError, match="an entry is called"):
            opened(cache.with_name("other")).contents(url_of(server), commit)

    def test_a_tree_that_says_something_twice(self, server: GitServer, cache: Path) -> None:
        repository = server.repository("project")
        blob = repository.blob(b"x")
        commit = repository.commit(tree=repository.raw_tree(("100644", b"a", blob), ("100755", b"a", blob)))
        with pytest.raises(IntegrityError):
            opened(cache).contents(url_of(server), commit)

    def test_an_unknown_mode(self, server: GitServer, cache: Path) -> None:
        repository = server.repository("project")
        commit = repository.commit(tree=repository.raw_tree(("10644", b"a", repository.blob(b"x"))))
        with pytest.raises(IntegrityError):
            opened(cache).contents(url_of(server), commit)

    def test_names_that_differ_in_case_are_fine(self, server: GitServer, cache: Path) -> None:
        commit = server.repository("project").commit({"A": "1", "a": "2"})
        assert opened(cache).list(url_of(server), commit, "") == ["A", "a"]

    def test_a_damaged_cache_is_noticed(self, server: GitServer, project: Repository, cache: Path) -> None:
        commit = project.git("rev-parse", "main")
        git = opened(cache)
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"
        (pack,) = {path for path in cache.rglob("*.pack") if project_has(path)}
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        for at in range(len(data) // 3, len(data) - 20):
            data[at] ^= 0x55
        pack.write_bytes(bytes(data))
        with pytest.raises((IntegrityError, FetchError)):
            _everything(opened(cache, offline=True), url_of(server), commit)

    def test_a_server_that_says_nothing(self, server: GitServer, project: Repository, cache: Path) -> None:
        released = threading.Event()

        def stall(handler: Handler, request: GitRequest) -> bool:
            released.wait(30)
            return True

        server.before = stall
        begun = time.monotonic()
        config = Config(network=NetworkConfig(retries=0, timeout=1))
        try:
            with pytest.raises(UnreachableError):
                opened(cache, config).resolve(url_of(server), "v1")
            assert time.monotonic() - begun < 10
        finally:
            released.set()

    def test_a_broken_transfer_is_tried_again(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        broken = [503, 503]

        def failing(handler: Handler, request: GitRequest) -> bool:
            if broken:
                handler.reply(broken.pop(), b"")
                return True
            return False

        server.before = failing
        config = Config(network=NetworkConfig(retries=2, timeout=5))
        assert opened(cache, config).resolve(url_of(server), "v1")


def project_has(path: Path) -> bool:
    return path.stat().st_size > 100


class TestProcesses:
    def test_two_that_want_the_same(
        self, server: GitServer, project: Repository, cache: Path, tmp_path: Path
    ) -> None:
        commit = project.git("rev-parse", "main")
        program = tmp_path / "read.py"
        program.write_text(
            "import sys\nfrom pathlib import Path\nfrom lockbuild.config import Config\n"
            "from lockbuild.transport.git.repositories import GitRepositories\n"
            "git = GitRepositories(Path(sys.argv[1]), Config())\n"
            "url, commit = sys.argv[2:]\n"
            "assert git.read(url, commit, 'a.txt') == b'two\\n'\n"
            "assert git.list(url, commit, 'dir') == ['b.txt']\n"
        )
        arguments = [sys.executable, str(program), str(cache), url_of(server), commit]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        running = [subprocess.Popen(arguments, env=environ, stderr=subprocess.PIPE) for _ in range(4)]
        for process in running:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said.decode()
        # One commit for all of them, and at most one request for the file.
        assert len(server.sent()) <= 2

    def test_threads_that_want_different_commits(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        commits = project.git("rev-list", "main").split()
        git = opened(cache)
        found: dict[str, bytes | None] = {}
        threads = [
            threading.Thread(target=lambda c=c: found.update({c: git.read(url_of(server), c, "a.txt")}))
            for c in commits
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [found[commit] for commit in commits] == [b"two\n", b"two\n", b"one\n"]

    def test_what_a_killed_process_left_is_no_obstacle(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        commit = project.git("rev-parse", "main")
        git = opened(cache)
        git.read(url_of(server), project.git("rev-parse", "v1^{commit}"), "a.txt")
        (repository,) = cache.glob("*/trees.git")
        (repository / "shallow.lock").write_text("")
        assert git.read(url_of(server), commit, "a.txt") == b"two\n"

    def test_an_interrupt_ends_its_children(
        self, server: GitServer, project: Repository, cache: Path, tmp_path: Path
    ) -> None:
        asked, released = threading.Event(), threading.Event()

        def stall(handler: Handler, request: GitRequest) -> bool:
            asked.set()
            released.wait(30)
            return True

        server.before = stall
        program = (
            "import sys\nfrom pathlib import Path\nfrom lockbuild.config import Config\n"
            "from lockbuild.transport.git.repositories import GitRepositories\n"
            "GitRepositories(Path(sys.argv[1]), Config()).resolve(sys.argv[2], 'v1')\n"
        )
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(cache), url_of(server)], env=environ, stderr=subprocess.PIPE
        )
        try:
            assert asked.wait(20)
            assert _speaking_to(server)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=10)
            assert b"KeyboardInterrupt" in said
            assert not _speaking_to(server)
        finally:
            released.set()
            process.kill()

    def test_it_can_be_stopped_from_another_thread(
        self, server: GitServer, project: Repository, cache: Path
    ) -> None:
        from lockbuild.transport.git.process import GitStoppedError

        released = threading.Event()
        git = opened(cache)

        def stop(handler: Handler, request: GitRequest) -> bool:
            git.stop()
            released.wait(30)
            return True

        server.before = stop
        with pytest.raises(GitStoppedError):
            git.resolve(url_of(server), "v1")
        released.set()

    def test_without_git(self, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "nothing").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        with pytest.raises(FetchError, match="git is needed") as error:
            opened(cache).resolve("https://git.invalid/a", "main")
        assert "install git" in (error.value.hint or "")

    def test_the_configuration_of_the_user_takes_no_part(
        self,
        server: GitServer,
        project: Repository,
        cache: Path,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / ".gitconfig").write_text(f'[url "file:///nowhere/"]\n\tinsteadOf = {server.url}\n')
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("GIT_SSH_COMMAND", "false")
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'http.proxy=http://127.0.0.1:1'")
        assert opened(cache).resolve(url_of(server), "v1")


def _speaking_to(server: GitServer) -> list[bytes]:
    """The command lines of git's processes that talk to the server."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"git" in line and server.url.encode() in line and b"python" not in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% x", "--upload-pack=x", "ssh://-oProxyCommand=x/y", "git://h/x", "file://host/x"],
)
def test_urls_that_are_not_used(url: str, cache: Path) -> None:
    git = opened(cache)
    with pytest.raises(ResolveError, match="cannot be used"):
        git.refs(url)
    with pytest.raises(ResolveError, match="cannot be used"):
        git.read(url, "ab" * 20, "a")


def test_who_waits_is_told(server: GitServer, project: Repository, cache: Path) -> None:
    from lockbuild.transport.git.cache import CachedRepository

    notes: list[str] = []
    git = GitRepositories(
        cache,
        Config(network=QUICK),
        report=lambda e: notes.append(e.message) if isinstance(e, Note) else None,
    )
    released = threading.Timer(0.5, lambda: release.set())
    release = threading.Event()
    holding = threading.Event()

    def hold() -> None:
        with CachedRepository(cache, url_of(server), "trees").filling():
            holding.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    released.start()
    assert git.read(url_of(server), project.git("rev-parse", "main"), "a.txt") == b"two\n"
    thread.join()
    assert any("waiting for another process" in note for note in notes)
