"""From a commit to the canonical tar of its tree, and from that and what the lock says to a tree with a .git."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.config import Config, NetworkConfig
from lockbuild.environment.git import git_tree
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.fetch.git import LIMIT, fetch, write_tree
from lockbuild.fetch.places import Places
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.store import Store
from lockbuild.transport.failures import MalformedError, NotFoundError, TooLargeError
from lockbuild.transport.git.repositories import GitRepositories
from lockbuild.transport.http import Http
from lockbuild.transport.index import PackageIndexes
from tests.support.git_server import Repository, new_repository, run_git

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "ab" * 32 + "\nsize 12345\n"
CONFIG = Config(network=NetworkConfig(retries=0))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "served" / "project")


@pytest.fixture
def git(tmp_path: Path) -> GitRepositories:
    return GitRepositories(tmp_path / "cache", CONFIG, offline=True)


def tar_of(
    git: GitRepositories,
    repository: Repository,
    commit: str,
    *,
    exclude: Sequence[str] = (),
    limit: int = LIMIT,
) -> bytes:
    out = io.BytesIO()
    write_tree(git, repository.url, commit, out, exclude=exclude, limit=limit)
    return out.getvalue()


def names(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


class TestTree:
    def test_it_is_the_canonical_tar_of_a_checkout(
        self, git: GitRepositories, repository: Repository, tmp_path: Path
    ) -> None:
        long = "d" * 60 + "/" + "e" * 60
        commit = repository.commit(
            {
                "a.txt": "a",
                "a/b": "b",
                "a-b": "",
                "z/y/x": "x",
                long: "l",
                "ünï": "u",
                "big": os.urandom(3 << 20),
            },
            executable=("z/y/x",),
            symlinks={"link": "a/b", "z/up": "../a.txt", "l" * 110: "a/" + "../a/" * 30 + "b"},
        )
        run_git("clone", "-q", repository.url, str(tmp_path / "clone"), cwd=tmp_path)
        clone = tmp_path / "clone"
        run_git("checkout", "-q", commit, cwd=clone)
        (clone / ".git").rename(tmp_path / "git")
        out = io.BytesIO()
        write_canonical_tar(clone, out)
        assert tar_of(git, repository, commit) == out.getvalue()

    def test_attributes_change_no_byte(self, git: GitRepositories, repository: Repository) -> None:
        files: dict[str, bytes | str | None] = {
            ".gitattributes": "*.txt text eol=crlf\n*.u16 working-tree-encoding=UTF-16\n"
            "v.c ident export-subst\nsecret export-ignore\n*.bin -text\n",
            "lf.txt": b"one\ntwo\n",
            "crlf.txt": b"one\r\ntwo\r\n",
            "t.u16": "ä\n",
            "v.c": "$Id$ $Format:%H$\n",
            "secret": "s",
            "x.bin": b"\r\n\n\r",
        }
        data = tar_of(git, repository, repository.commit(files))
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        assert found == {
            name: content if isinstance(content, bytes) else str(content).encode()
            for name, content in files.items()
        }

    def test_submodules_are_empty_directories(self, git: GitRepositories, repository: Repository) -> None:
        commit = repository.commit({"a": "a"}, submodules={"sub/module": ("../x", "ab" * 20)})
        found = names(tar_of(git, repository, commit))
        assert found["sub/module"].isdir()
        assert set(found) == {".gitmodules", "a", "sub", "sub/module"}

    def test_an_empty_one(self, git: GitRepositories, repository: Repository) -> None:
        assert tar_of(git, repository, repository.commit(tree=repository.raw_tree())) == bytes(1024)

    def test_modes_of_old(self, git: GitRepositories, repository: Repository) -> None:
        blob = repository.blob(b"x")
        tree = repository.raw_tree(("100664", b"group", blob), ("100755", b"run", blob))
        found = names(tar_of(git, repository, repository.commit(tree=tree)))
        assert {name: member.mode for name, member in found.items()} == {"group": 0o644, "run": 0o755}

    @pytest.mark.parametrize(
        ("place", "target"),
        [
            ("link", "/etc/passwd"),
            ("link", "../outside"),
            ("a/link", "../../outside"),
            ("a/b/link", "../../../x"),
        ],
    )
    def test_links_that_lead_out(
        self, git: GitRepositories, repository: Repository, place: str, target: str
    ) -> None:
        commit = repository.commit({"f": "x"}, symlinks={place: target})
        with pytest.raises(IntegrityError) as error:
            tar_of(git, repository, commit)
        assert place in str(error.value)
        assert target in str(error.value)
        assert commit in str(error.value)

    def test_a_limit(self, git: GitRepositories, repository: Repository) -> None:
        commit = repository.commit({"a": "x" * 600, "b": "y" * 600})
        with pytest.raises(TooLargeError, match="more than 1,000 bytes"):
            tar_of(git, repository, commit, limit=1000)
        assert tar_of(git, repository, commit, limit=1200)

    def test_a_whiteout(self, git: GitRepositories, repository: Repository) -> None:
        with pytest.raises(IntegrityError, match="whiteout"):
            tar_of(git, repository, repository.commit({"a/.wh.b": "x"}))

    def test_what_is_left_out_is_not_fetched(self, git: GitRepositories, repository: Repository) -> None:
        commit = repository.commit(
            {"a/b": "b", "a/c": "c", "ab": "x", "d/big": "big"}, symlinks={"out": "/etc"}
        )
        blob = repository.git("rev-parse", "main:d/big")
        (repository.path / "objects" / blob[:2] / blob[2:]).unlink()
        assert set(names(tar_of(git, repository, commit, exclude=["d", "out", "a/b"]))) == {"a", "a/c", "ab"}
        with pytest.raises(NotFoundError, match="it lacks d/big"):
            tar_of(git, repository, commit, exclude=["out"])


class TestLfs:
    def test_pointers_are_refused(self, git: GitRepositories, repository: Repository) -> None:
        files: dict[str, bytes | str | None] = {f"data/{number}.bin": POINTER for number in range(7)}
        commit = repository.commit(
            {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.txt": "a", **files}
        )
        with pytest.raises(MalformedError) as error:
            tar_of(git, repository, commit)
        assert "git LFS keeps data/0.bin, data/1.bin" in error.value.what
        assert "and 2 more" in error.value.what
        assert "a.txt" not in error.value.what

    def test_a_file_that_only_looks_so(self, git: GitRepositories, repository: Repository) -> None:
        commit = repository.commit({"x/.gitattributes": "*.bin filter=lfs\n", "tests/pointer": POINTER})
        assert tar_of(git, repository, commit)

    def test_attributes_of_a_directory_above(self, git: GitRepositories, repository: Repository) -> None:
        commit = repository.commit({"x/.gitattributes": "*.bin filter=lfs\n", "x/y/z.bin": POINTER})
        with pytest.raises(MalformedError, match=r"x/y/z\.bin"):
            tar_of(git, repository, commit)


class Sources:
    """Fetches and unpacks as a sync would."""

    def __init__(self, directory: Path, git: GitRepositories) -> None:
        self.store = Store(directory / "store")
        self.git = git
        self.directory = directory
        self.http = Http(CONFIG, offline=True)
        self.references: dict[str, str] = {}

    def fetch(self, source: Source) -> Digest:
        places = Places(CONFIG, PackageIndexes(self.http, CONFIG), {}, self.references)
        return fetch(source, self.store, self.git, places)

    def unpack(self, name: str, sources: list[Source], parameters: dict[str, str]) -> Path:
        files = [self.store.verified_blob(self.fetch(source)) for source in sources]
        root = self.directory / name
        root.mkdir()
        git_tree(sources, files, root, mount="/opt/it", parameters=parameters)
        return root / "opt" / "it"


def source(url: str, commit: str, at: str | None = None, sha256: Digest | None = None) -> Source:
    return Source(
        purl=f"pkg:generic/x@{commit}", url=url, commit=commit, at=at, sha256=sha256, trees=["any:tools.it"]
    )


@pytest.fixture
def sources(tmp_path: Path, git: GitRepositories) -> Sources:
    return Sources(tmp_path, git)


class TestFetch:
    def test_its_digest_is_remembered(self, sources: Sources, repository: Repository) -> None:
        commit = repository.commit({"a": "a"}, executable=("a",))
        wanted = source(repository.url, commit)
        digest = sources.fetch(wanted)
        assert sources.store.recall(wanted.identity) == digest
        assert sources.store.verified_blob(digest).stat().st_size % 512 == 0

    def test_the_digest_of_the_lock_binds(self, sources: Sources, repository: Repository) -> None:
        commit = repository.commit({"a": "a"})
        wrong = Digest.of(b"something else")
        wanted = source(repository.url, commit, sha256=wrong)
        with pytest.raises(IntegrityError) as error:
            sources.fetch(wanted)
        assert str(wrong) in str(error.value)
        assert str(sources.fetch(source(repository.url, commit))) in str(error.value)

    def test_one_that_is_gone_says_what_it_was(self, sources: Sources, repository: Repository) -> None:
        other = repository.commit({"a": "b"})
        repository.tag("v1", other)
        commit = "ab" * 20
        sources.references[commit] = "refs/tags/v1"
        with pytest.raises(NotFoundError) as error:
            sources.fetch(source(repository.url, commit))
        assert f"when it was locked it was the tag v1, and it is {other} now" in error.value.what
        sources.references[commit] = "refs/heads/feature"
        with pytest.raises(NotFoundError, match="the branch feature, and it is not there any more"):
            sources.fetch(source(repository.url, commit))


class TestSubmodules:
    def test_each_stands_in_its_place(self, sources: Sources, repository: Repository, tmp_path: Path) -> None:
        inner = new_repository(tmp_path / "served" / "inner")
        deep = new_repository(tmp_path / "served" / "deep")
        deepest = deep.commit({"d": "d"})
        middle = inner.commit({"i": "i"}, submodules={"deep": ("../deep", deepest)})
        top = repository.commit({"t": "t"}, submodules={"lib/inner": ("../inner", middle)})
        every = [
            source(deep.url, deepest, "lib/inner/deep"),
            source(inner.url, middle, "lib/inner"),
            source(repository.url, top),
        ]
        tree = sources.unpack("out", every, {})
        found = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
        assert found == [".gitmodules", "lib/inner/.gitmodules", "lib/inner/deep/d", "lib/inner/i", "t"]
        run_git("-c", "protocol.file.allow=always", "clone", "-q", "--recurse-submodules",
                repository.url, str(tmp_path / "clone"), cwd=tmp_path)  # fmt: skip
        for path in [*(tmp_path / "clone").rglob(".git")]:
            path.rename(tmp_path / f"away-{path.parent.name}")
        assert tree_digest(tmp_path / "clone") == tree_digest(tree)

    def test_none_is_unpacked_through_a_link(self, sources: Sources, repository: Repository) -> None:
        commit = repository.commit({"real/f": "x"}, symlinks={"link": "real"})
        with pytest.raises(IntegrityError, match="through a symbolic link"):
            sources.unpack(
                "out", [source(repository.url, commit), source(repository.url, commit, "link")], {}
            )


ASKED = (
    ("describe", "--tags", "--always", "--dirty"),
    ("describe", "--always", "--dirty"),
    ("describe", "--tags", "--exact-match"),
    ("rev-parse", "HEAD"),
    ("rev-parse", "--short", "HEAD"),
    ("log", "-1", "--format=%H %T %an %ae %cn %cI %s"),
    ("show", "-s", "--format=%cd", "HEAD"),
    ("status", "--porcelain"),
    ("ls-files", "--stage"),
)


class TestGitDirectory:
    @pytest.fixture
    def history(self, repository: Repository, tmp_path: Path) -> Repository:
        repository.commit({"a": "0"}, branch="untagged")
        v1 = repository.commit({"a/b": "1", "c.txt": b"x\r\n", "run": "r"}, executable=("run",))
        repository.tag("v1", v1, annotated=True)
        repository.commit({"a/b": "2"}, symlinks={"link": "a/b"})
        light = repository.commit({".gitattributes": "*.c filter=lfs\n", "id": "$Id$\n"})
        repository.tag("light/with-slash", light)
        repository.commit({"d": "4"}, submodules={"sub": ("../x", "ab" * 20)})
        repository.commit({"e": "5"}, message="ünï\n\nbody")
        return repository

    @pytest.mark.parametrize("rev", ["v1", "v1~0", "light/with-slash", "main~1", "main", "v1.1", "untagged"])
    def test_git_answers_as_in_a_clone(
        self, sources: Sources, history: Repository, tmp_path: Path, rev: str
    ) -> None:
        history.git("update-ref", "refs/heads/v1.1", "main~3")
        commit = history.git("rev-parse", f"{rev}^{{commit}}")
        tree = sources.unpack("out", self._both(history, commit), self._parameters(sources, history, commit))
        run_git("clone", "-q", history.url, str(tmp_path / "clone"), cwd=tmp_path)
        run_git("checkout", "-q", commit, cwd=tmp_path / "clone")
        for command in ASKED:
            assert run_git(*command, cwd=tree, check=False) == run_git(
                *command, cwd=tmp_path / "clone", check=False
            ), command

    def test_attributes_make_nothing_dirty(self, sources: Sources, repository: Repository) -> None:
        """In a clone of this one git takes files for changed that nobody touched."""
        commit = repository.commit(
            {".gitattributes": "* text eol=crlf ident\n", "id": "$Id$\n", "crlf": b"x\r\n", "lf": "x\n"}
        )
        parameters = self._parameters(sources, repository, commit)
        tree = sources.unpack("out", self._both(repository, commit), parameters)
        assert run_git("status", "--porcelain", cwd=tree) == ""
        assert run_git("describe", "--always", "--dirty", cwd=tree) == commit[:7]

    def test_what_is_left_out_is_not_missed(self, sources: Sources, history: Repository) -> None:
        commit = history.git("rev-parse", "main")
        exclude = ["a", "link", "run"]
        both = [each.model_copy(update={"exclude": exclude}) for each in self._both(history, commit)]
        tree = sources.unpack("out", both, self._parameters(sources, history, commit))
        assert not (tree / "a").exists()
        assert run_git("describe", "--tags", "--dirty", cwd=tree) == f"light/with-slash-2-g{commit[:7]}"
        assert run_git("status", "--porcelain", cwd=tree) == ""
        assert len(run_git("ls-files", cwd=tree).splitlines()) == 10

    def test_a_change_is_dirty(self, sources: Sources, history: Repository) -> None:
        commit = history.git("rev-parse", "main")
        tree = sources.unpack("out", self._both(history, commit), self._parameters(sources, history, commit))
        (tree / "new").write_text("untracked")
        assert "dirty" not in run_git("describe", "--tags", "--dirty", cwd=tree)
        (tree / "e").write_text("6")
        assert run_git("describe", "--tags", "--dirty", cwd=tree).endswith("-dirty")

    def test_it_is_the_same_from_any_clone(
        self, sources: Sources, history: Repository, tmp_path: Path
    ) -> None:
        """Packed otherwise, with other tags and other settings, fetched from another place."""
        commit = history.git("rev-parse", "main")
        parameters = self._parameters(sources, history, commit)
        first = tree_digest(sources.unpack("out", self._both(history, commit), parameters))
        other = new_repository(tmp_path / "elsewhere" / "copy")
        run_git("fetch", "-q", history.url, "+refs/*:refs/*", cwd=other.path)
        other.tag("v9", commit, annotated=True)
        other.configure("pack.compression", "9")
        other.configure("uploadpack.allowFilter", "false")
        other.git("repack", "-adfq", "--depth=3")
        again = Sources(tmp_path / "again", GitRepositories(tmp_path / "cache2", CONFIG, offline=True))
        (tmp_path / "again").mkdir()
        second = tree_digest(again.unpack("out", self._both(other, commit), parameters))
        assert first == second

    @pytest.mark.parametrize(
        "parameters",
        [
            {},
            {"describe": "v1", "abbrev": "7"},
            {"describe": "v1-0-g" + "cd" * 20, "abbrev": "7"},
            {"describe": "../../x-1-g{0}", "abbrev": "7\n[core]"},
            {"describe": "{0}", "abbrev": ""},
            {"describe": "a b-1-g{0}", "abbrev": "7"},
        ],
    )
    def test_parameters_that_were_edited(
        self, sources: Sources, history: Repository, parameters: dict[str, str]
    ) -> None:
        commit = history.git("rev-parse", "main")
        edited = {key: value.format(commit) for key, value in parameters.items()}
        with pytest.raises(IntegrityError):
            sources.unpack("out", self._both(history, commit), edited)

    def _both(self, repository: Repository, commit: str) -> list[Source]:
        return [source(repository.url, commit), source(repository.url, commit, ".git")]

    def _parameters(self, sources: Sources, repository: Repository, commit: str) -> dict[str, str]:
        said = sources.git.describe(repository.url, commit)
        parameters = {"abbrev": str(said.abbrev), "describe": commit}
        if said.tag is not None:
            parameters["describe"] = f"{said.tag.name}-{said.tag.distance}-g{commit}"
        if said.annotated is not None:
            parameters["describe-annotated"] = f"{said.annotated.name}-{said.annotated.distance}-g{commit}"
        return parameters


def test_a_repository_without_a_file(sources: Sources, repository: Repository) -> None:
    """A mirror that left large files out is told by the file that it lacks."""
    commit = repository.commit({"a": "a", "b": "b"})
    blob = repository.git("rev-parse", "main:b")
    (repository.path / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(FetchError) as error:
        sources.fetch(source(repository.url, commit))
    assert blob in str(error.value)
