"""A mirror of a store, and what real programs make of it: lockbuild, pip, apt, git, skopeo, curl."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import signal
import ssl
import sys
import tarfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.environment.compose import in_environment
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.model.lockfile import loads
from lockbuild.oci.layers import encode
from lockbuild.store import Store
from lockbuild.workflow.serve import parse_bind
from tests.functional.test_archive_sources import tarball
from tests.support.engine import PrivateEngine
from tests.support.git_server import GitServer, Repository, serving_git
from tests.support.http_server import make_certificate
from tests.support.mirror import Mirror, mirroring, run
from tests.support.npm import NpmPackage, npm_package
from tests.support.package_index import Index
from tests.support.processes import left_behind
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

LEFT = npm_package("left")
PRIVATE = b"what no lock names"
TOOLS = """
[tools.thing]
from = "pypi"
requirement = "thing"

[tools.web]
from = "npm"
lockfile = "package-lock.json"
"""


@dataclass
class MirrorWorld:
    """The tiny world with sources of every kind, and a mirror of it."""

    world: TinyWorld
    mirror: Mirror
    git: GitServer
    library: Repository
    commit: str
    unlocked: str
    wheel: str

    @property
    def lock(self) -> Lock:
        return loads((self.world.project / "lockbuild.lock").read_text(), "lockbuild.lock")

    def sha256(self, purl: str) -> str:
        (found,) = (source for source in self.lock.sources if source.purl.startswith(purl))
        assert found.sha256 is not None
        return found.sha256.hex

    def requests(self) -> int:
        """How often the places that the mirror stands for were asked."""
        return len(self.world.server.requests) + len(self.git.requests)


def package_lock(package: NpmPackage, registry: str) -> str:
    packages = {
        "": {"name": "web", "dependencies": {package.name: package.version}},
        f"node_modules/{package.name}": package.locked(registry),
    }
    return json.dumps({"name": "web", "lockfileVersion": 3, "requires": True, "packages": packages})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirrorWorld]:
    directory = tmp_path_factory.mktemp("served")
    with tiny_world(directory) as world, serving_git(directory / "git") as git:
        world.archive.add("libc6", "2.42-2", architecture=PLATFORM.debian_architecture)
        world.archive.add("python3", "3.13.5-1")
        world.publish()
        world.edit("toolchain.toml", '"greeting"]', '"greeting", "libc6", "python3"]')
        index = Index(world.server)
        wheel = index.add("thing", "1.5", requires=["helper"], padding=300_000)
        index.add("helper", "2.0")
        world.server.add(f"/npm/{LEFT.path}", LEFT.data)
        archive = world.server.add("/dist/lib-1.tar.gz", tarball({"lib-1/f": "archive\n"}))
        library = git.repository("owner/library")
        commit = library.commit({"f": "one\n", "big": "x" * 100_000, "left/out": "out\n"})
        library.tag("v1", commit)
        sparse = git.repository("owner/sparse")
        sparse.commit({"f": "three\n", "left/out": "out\n"})
        sparse.configure("uploadpack.allowFilter", "true")
        unlocked = library.commit({"f": "two\n"})
        with (world.project / "toolchain.toml").open("a") as file:
            file.write(TOOLS)
        (world.project / "package-lock.json").write_text(package_lock(LEFT, f"{world.server.url}/npm"))
        (world.project / "own").mkdir()
        (world.project / "own/f").write_text("own\n")
        with (world.project / "lockbuild.toml").open("a") as file:
            file.write(
                f'\n[sources.lib]\nfrom = "archive"\nurl = "{archive}"\ntrust = "first-use"\n'
                f'\n[sources.library]\nfrom = "git"\nurl = "{git.url}/owner/library"\nrev = "v1"\n'
                f'\n[sources.sparse]\nfrom = "git"\nurl = "{git.url}/owner/sparse"\nrev = "main"\n'
                'exclude = ["left"]\n\n[sources.own]\nfrom = "path"\npath = "own"\n'
            )
        with world.config.open("a") as file:
            file.write(f'[pypi]\nindexes = ["{index.url}"]\n[npm]\nregistry = "{world.server.url}/npm"\n')
        world.run("lock")
        shutil.copy(world.project / "lockbuild.lock", directory / "resolved.lock")
        world.run("lock", "--materialise")
        Store(world.store).add_blob(PRIVATE)
        with mirroring(world) as mirror:
            yield MirrorWorld(world, mirror, git, library, commit, unlocked, wheel)


# lockbuild


@pytest.mark.parametrize("lock", ["materialised", "resolved"])
def test_another_lockbuild_takes_everything_from_it(served: MirrorWorld, tmp_path: Path, lock: str) -> None:
    """With a resolved lock it has no digest of the commit, and must fetch that itself."""
    other = served.world.fork(tmp_path)
    other.config, other.shared_store = tmp_path / "config.toml", tmp_path / "empty"
    other.config.write_text("[network]\nretries = 0\n\n" + served.mirror.snippet("lockbuild"))
    if lock == "resolved":
        shutil.copy(served.world.directory / "resolved.lock", other.project / "lockbuild.lock")
        assert (
            f'sha256 = "sha256:{served.sha256("pkg:generic/library")}"'
            not in (other.project / "lockbuild.lock").read_text()
        )
    before = served.requests()
    synced = other.run("sync", "--json").value
    assert served.requests() == before
    assert synced["image"] == str(served.lock.environments[str(PLATFORM)].image)
    assert {"base", "tools.thing", "tools.web", "sources.lib", "sources.library"} <= set(synced["made"])
    assert ("derive.words" in synced["made"]) == (lock == "resolved")


# By digest and by URL


def test_only_what_known_locks_name_is_served(served: MirrorWorld) -> None:
    private = hashlib.sha256(PRIVATE).hexdigest()
    assert Store(served.world.store).has_blob(Digest(private))
    for place in (f"sha256/{private}", f"blobs/sha256/{private}", f"v2/tiny/blobs/sha256:{private}"):
        assert served.mirror.status(place) == 404
    (own,) = (tree.digest for tree in served.lock.trees if tree.unpack == "path")
    assert own is not None
    assert Store(served.world.store).has_tree(own)
    assert served.mirror.status(f"sha256/{own.hex}") == 404, "what is the project's own comes from nowhere"
    known = served.sha256("pkg:pypi/thing")
    assert hashlib.sha256(served.mirror.get(f"sha256/{known}")).hexdigest() == known
    assert served.mirror.get(f"blobs/sha256/{known}") == served.mirror.get(f"sha256/{known}")


def test_by_sha512_by_url_and_npm(served: MirrorWorld) -> None:
    sha512 = hashlib.sha512(LEFT.data).hexdigest()
    assert served.mirror.get(f"sha512/{sha512}") == LEFT.data
    assert served.mirror.get(f"npm/{LEFT.path}") == LEFT.data
    host = served.world.server.url.partition("://")[2]
    assert (
        served.mirror.get(f"url/http/{host}/dist/lib-1.tar.gz")
        == served.world.server.files["/dist/lib-1.tar.gz"]
    )
    assert served.mirror.status(f"url/http/{host}/dist/lib-1.tar.gz?other") == 404
    assert served.mirror.status("healthz") == 200


def test_curl_resumes_and_asks_whether_it_is_new(served: MirrorWorld, tmp_path: Path) -> None:
    digest = served.sha256("pkg:pypi/thing")
    url = f"{served.mirror.url}/sha256/{digest}"
    whole = served.mirror.get(f"sha256/{digest}")
    part = tmp_path / "part"
    part.write_bytes(whole[:1000])
    run("curl", "-sS", "-f", "-C", "-", "-o", part, url)
    assert part.read_bytes() == whole
    head = run("curl", "-sS", "-I", url).lower()
    assert f'etag: "{digest}"' in head
    assert f"content-length: {len(whole)}" in head
    assert "immutable" in head
    status = ("curl", "-sS", "-o", tmp_path / "out", "-w", "%{http_code} %{size_download}", url)
    assert run(*status, "-H", f'If-None-Match: "{digest}"') == "304 0"
    assert run(*status, "-r", "5-14") == "206 10"
    assert (tmp_path / "out").read_bytes() == whole[5:15]
    assert run(*status, "-r", "-7") == "206 7"
    assert run(*status, "-r", "5-14", "-H", 'If-Range: "other"') == f"200 {len(whole)}"
    assert run(*status, "-r", f"{len(whole)}-") == "416 0"
    kept = run("curl", "-sS", "-o", tmp_path / "1", "-o", tmp_path / "2", "-w", "%{num_connects}", url, url)
    assert kept == "10"


def test_a_tree_that_a_lock_records_is_a_file_by_its_digest(served: MirrorWorld, tmp_path: Path) -> None:
    (tree,) = (tree for tree in served.lock.trees if tree.unpack == "derive")
    assert tree.digest is not None
    url = f"{served.mirror.url}/sha256/{tree.digest.hex}"
    whole = served.mirror.get(f"sha256/{tree.digest.hex}")
    assert Digest.of(whole) == tree.digest
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        assert any(name.endswith("/words") for name in tar.getnames())
    part = tmp_path / "part"
    part.write_bytes(whole[:700])
    run("curl", "-sS", "-f", "-C", "-", "-o", part, url)
    assert part.read_bytes() == whole
    head = run("curl", "-sS", "-I", url).lower()
    assert f'etag: "{tree.digest.hex}"' in head
    assert f"content-length: {len(whole)}" in head
    assert "immutable" in head
    status = ("curl", "-sS", "-o", tmp_path / "out", "-w", "%{http_code} %{size_download}", url)
    assert run(*status, "-H", f'If-None-Match: "{tree.digest.hex}"') == "304 0"


# pip


@pytest.mark.parametrize("arguments", [[], ["--use-deprecated=legacy-resolver"]])
def test_pip_installs_from_the_index(served: MirrorWorld, tmp_path: Path, arguments: list[str]) -> None:
    words = served.mirror.snippet("pip").replace("PROJECT", "").split()[1:]
    before = served.requests()
    run(
        *(sys.executable, "-m", "pip", *words, "--no-cache-dir", "--disable-pip-version-check"),
        *("--target", tmp_path / "to", *arguments, "Thing>=1"),
    )
    assert (tmp_path / "to/thing-1.5.dist-info/METADATA").is_file()
    assert (tmp_path / "to/helper-2.0.dist-info/METADATA").is_file()
    assert served.requests() == before
    assert "1.5-py3-none-any.whl.metadata' 200" in served.mirror.said


def test_the_index_as_html_and_json(served: MirrorWorld) -> None:
    request = urllib.request.Request(f"{served.mirror.url}/pypi/simple/Thing")
    with urllib.request.urlopen(request) as answer:
        assert answer.url == f"{served.mirror.url}/pypi/simple/thing/"
        assert f"#sha256={served.sha256('pkg:pypi/thing')}" in answer.read().decode()
    request.add_header("Accept", "text/html;q=0.1, application/vnd.pypi.simple.v1+json")
    with urllib.request.urlopen(request) as answer:
        page = json.load(answer)
    assert page["versions"] == ["1.5"]
    (file,) = page["files"]
    assert (file["filename"], file["size"]) == (
        served.wheel,
        len(served.world.server.files[f"/files/{served.wheel}"]),
    )
    assert served.mirror.status("pypi/simple/other/") == 404


# apt


def apt(directory: Path, line: str, *arguments: str, status: int | None = 0) -> str:
    """Real apt-get with a state of its own."""
    for name in (
        "lists/partial",
        "archives/partial",
        "etc/apt.conf.d",
        "etc/preferences.d",
        "etc/trusted.gpg.d",
    ):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "status").touch()
    (directory / "sources.list").write_text(line + "\n")
    configuration = directory / "apt.conf"
    configuration.write_text(
        f'Dir::Etc "{directory}/etc"; Dir::Etc::sourcelist "{directory}/sources.list";\n'
        f'Dir::Etc::sourceparts "-"; Dir::State::lists "{directory}/lists"; Dir::State "{directory}";\n'
        f'Dir::State::status "{directory}/status"; Dir::Cache "{directory}"; Dir::Cache::archives '
        f'"{directory}/archives";\nAPT::Architecture "{PLATFORM.debian_architecture}";\n'
        'APT::Architectures {}; APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "0";\n'
    )
    # apt reads the machine's configuration before it looks where that should be.
    return run("apt-get", "-q", *arguments, status=status, APT_CONFIG=str(configuration))


def test_apt_installs_the_packages_of_a_lock(served: MirrorWorld, tmp_path: Path) -> None:
    line = served.mirror.snippet("apt").splitlines()[0]
    assert "trusted=yes" in line
    apt(tmp_path, line, "update", "-o", "Acquire::http::Proxy=false")
    apt(tmp_path, line, "install", "--download-only", "-y", "greeting", "busybox")
    found = {path.name.partition("_")[0]: path for path in (tmp_path / "archives").glob("*.deb")}
    for name in ("greeting", "busybox"):
        digest = hashlib.sha256(found[name].read_bytes()).hexdigest()
        assert digest == served.sha256(f"pkg:deb/debian/{name}@")


def test_apt_believes_the_signed_index(served: MirrorWorld, tmp_path: Path) -> None:
    lines = served.mirror.snippet("apt, by signed indexes").splitlines()
    line = next(line for line in lines if " forky " in line)
    line = line.replace(
        "/usr/share/keyrings/debian-archive-keyring.gpg", str(served.world.directory / "keyring.gpg")
    )
    apt(tmp_path, line, "update")
    apt(tmp_path, line, "install", "--download-only", "-y", "greeting")
    assert list((tmp_path / "archives").glob("greeting_*.deb"))
    refused = apt(tmp_path, line.replace("keyring.gpg", "config.toml"), "update", status=None)
    assert "NO_PUBKEY" in refused or "unsupported filetype" in refused or "not signed" in refused


# git


def test_git_fetches_locked_commits_only(served: MirrorWorld, tmp_path: Path) -> None:
    snippet = served.mirror.snippet("git")
    url = next(word for word in snippet.split() if word.endswith("/owner/library.git"))
    run("git", "clone", "-q", url, tmp_path / "clone")
    assert (tmp_path / "clone/f").read_text() == "one\n"
    run("git", "init", "-q", tmp_path / "fetched")
    run("git", "fetch", "-q", "--depth=1", url, served.commit, cwd=tmp_path / "fetched")
    run("git", "fetch", "-q", url, "refs/tags/v1:refs/tags/v1", cwd=tmp_path / "fetched")
    assert run("git", "rev-parse", "FETCH_HEAD^{commit}", cwd=tmp_path / "fetched").strip() == served.commit
    run("git", "-c", "protocol.version=0", "clone", "-q", url, tmp_path / "old")
    assert run("git", "fsck", "--strict", cwd=tmp_path / "old") == ""
    refused = run("git", "fetch", url, served.unlocked, cwd=tmp_path / "fetched", status=128)
    assert "not our ref" in refused
    run("git", "commit", "--allow-empty", "-qm", "x", cwd=tmp_path / "clone", **_AUTHOR)
    assert "403" in run("git", "push", url, "HEAD:refs/heads/x", cwd=tmp_path / "clone", status=128)
    assert run("git", "ls-remote", url.replace("library", "other"), status=128)
    host = served.git.url.partition("://")[2]
    assert served.commit in run("git", "ls-remote", f"{served.mirror.url}/git/{host}/owner/library.git")


def test_what_a_lock_leaves_out_of_a_commit(served: MirrorWorld, tmp_path: Path) -> None:
    snippet = served.mirror.snippet("git")
    url = next(word for word in snippet.split() if word.endswith("/owner/sparse.git"))
    for version in ("0", "2"):
        said = run("git", "-c", f"protocol.version={version}", "clone", url, tmp_path / version, status=128)
        assert "1 file of the locked commits is not here" in said
    partial = ("git", "clone", "-q", "--filter=blob:none", "--no-checkout", url)
    assert "--depth=1" in run(*partial, tmp_path / "deep", status=128)
    run(*partial, "--depth=1", tmp_path / "clone")
    assert run("git", "show", "HEAD:f", cwd=tmp_path / "clone") == "three\n"
    assert "not our ref" in run("git", "show", "HEAD:left/out", cwd=tmp_path / "clone", status=128)


_AUTHOR = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.test",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.test",
}


# Images


def test_skopeo_copies_the_image_of_the_lock(served: MirrorWorld, tmp_path: Path) -> None:
    recorded = served.lock.environments[str(PLATFORM)]
    name = f"docker://{served.mirror.host}/tiny"
    plain = "--tls-verify=false"
    seen = json.loads(run("skopeo", "inspect", plain, f"{name}:{str(PLATFORM).replace('/', '-')}"))
    assert seen["Digest"] == str(recorded.manifest)
    assert seen["RepoTags"] == ["latest", str(PLATFORM).replace("/", "-")]
    copy = ("skopeo", "copy", "-q", "--src-tls-verify=false")
    run(*copy, "--preserve-digests", f"{name}@{recorded.manifest}", f"oci:{tmp_path}/oci:x")
    index = json.loads((tmp_path / "oci/index.json").read_text())
    assert index["manifests"][0]["digest"] == str(recorded.manifest)
    config = json.loads(run("skopeo", "inspect", "--config", "--raw", f"oci:{tmp_path}/oci:x"))
    run(*copy, f"{name}:latest", f"dir:{tmp_path}/dir")
    layer = config["rootfs"]["diff_ids"][0].partition(":")[2]
    assert hashlib.sha256((tmp_path / "dir" / layer).read_bytes()).hexdigest() == layer
    run(
        *("curl", "-sS", "-f", "-r", "1000-70000", "-o", tmp_path / "part"),
        f"{served.mirror.url}/v2/tiny/blobs/sha256:{layer}",
    )
    assert (tmp_path / "part").read_bytes() == (tmp_path / "dir" / layer).read_bytes()[1000:70001]


def test_compressed_layers_that_the_store_has(forked: TinyWorld, tmp_path: Path) -> None:
    store = Store(forked.store)
    lock = loads((forked.project / "lockbuild.lock").read_text(), "lockbuild.lock")
    trees = [tree.digest for tree in in_environment(lock.trees) if tree.digest is not None]
    for digest in trees:  # other tests, which have the same store, may have made them so, too
        encode(store, digest, store.tree_path(digest), "gzip")
    layers = [encode(store, digest, store.tree_path(digest), "zstd") for digest in trees]
    platform = str(PLATFORM).replace("/", "-")
    with mirroring(forked, "--only") as mirror:
        assert json.loads(mirror.get("v2/tiny/tags/list"))["tags"] == [
            "latest",
            platform,
            f"{platform}-gzip",
            f"{platform}-zstd",
        ]
        source = f"docker://{mirror.host}/tiny:{platform}-zstd"
        run("skopeo", "copy", "-q", "--src-tls-verify=false", source, f"dir:{tmp_path}/dir")
    manifest = json.loads((tmp_path / "dir/manifest.json").read_text())
    assert [layer["digest"] for layer in manifest["layers"]] == [str(layer.digest) for layer in layers]
    assert manifest["config"]["digest"] == str(lock.environments[str(PLATFORM)].image)


@pytest.mark.docker
def test_docker_pulls_the_image_of_the_lock(served: MirrorWorld, engine: PrivateEngine) -> None:
    recorded = served.lock.environments[str(PLATFORM)]
    command = next(
        line for line in served.mirror.snippet("docker, podman, skopeo").splitlines() if "pull" in line
    )
    run(*command.split(), **engine.environ)
    shown = run(
        "docker", "image", "inspect", "--format={{.Id}}", command.split()[-1], **engine.environ
    ).strip()
    assert shown in (str(recorded.image), str(recorded.manifest))


def test_a_registry_that_can_only_be_read(served: MirrorWorld, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    said = run(
        "curl", "-sS", "-X", "POST", "-w", "%{http_code}", f"{served.mirror.url}/v2/tiny/blobs/uploads/"
    )
    assert "UNSUPPORTED" in said
    assert said.endswith("405")
    assert json.loads(served.mirror.get("v2/_catalog")) == {"repositories": ["tiny"]}
    assert json.loads(served.mirror.get("v2/tiny/tags/list?n=1"))["tags"] == ["latest"]
    assert served.mirror.status("v2/other/manifests/latest") == 404
    assert served.mirror.status("v2/tiny/manifests/sha256:00") == 400
    assert served.mirror.status("v2/_catalog?" + "&".join("abcdefghijklmno")) == 400


# The command


def test_a_damaged_file_is_not_served(forked: TinyWorld) -> None:
    first, second = sources_of(forked)[:2]
    with mirroring(forked) as mirror:
        assert mirror.status(f"sha256/{first}") == 200
        blob = forked.store / "blobs/sha256" / first
        blob.chmod(0o644)
        blob.write_bytes(b"damaged")
        assert mirror.status(f"sha256/{first}") == 404
        mirror.wait_until_it_says("is damaged")
        assert blob.exists(), "a mirror changes nothing"
        assert mirror.status(f"sha256/{second}") == 200
        file = next((forked.store / "trees/sha256").rglob("greeting"))
        file.write_text("damaged\n")
        layers = json.loads(mirror.get("v2/tiny/manifests/" + str(PLATFORM).replace("/", "-")))["layers"]
        assert mirror.status(f"v2/tiny/blobs/{layers[0]['digest']}") == 404
        assert mirror.status(f"sha256/{layers[0]['digest'].partition(':')[2]}") == 404


def test_locks_that_change_meanwhile(forked: TinyWorld) -> None:
    lock = forked.project / "lockbuild.lock"
    place = f"sha256/{sources_of(forked)[0]}"
    with mirroring(forked, "--only") as mirror:
        assert mirror.status(place) == 200
        text = lock.read_text()
        lock.write_text("nonsense")
        wait_for(lambda: mirror.status(place) == 404)
        mirror.wait_until_it_says("what a lock names is not served")
        lock.write_text(text)
        wait_for(lambda: mirror.status(place) == 200)


def sources_of(world: TinyWorld) -> list[str]:
    lock = tomllib.loads((world.project / "lockbuild.lock").read_text())
    return [source["sha256"].partition(":")[2] for source in lock["sources"]]


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to(forked: TinyWorld, number: int) -> None:
    with mirroring(forked) as mirror:
        assert mirror.get("healthz") == b"ok\n"
        assert mirror.stop(number) == 0
        assert "error" not in mirror.said
    assert left_behind(forked.store) == []


def test_over_tls(forked: TinyWorld, tmp_path: Path) -> None:
    both = make_certificate(tmp_path / "tls")
    with mirroring(forked, "--tls-cert", both) as mirror:
        assert mirror.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(tmp_path / "tls/certificate.pem"))
        with urllib.request.urlopen(f"{mirror.url}/", context=context) as answer:
            assert f"by-digest = &quot;{mirror.url}/sha256/" in answer.read().decode()
        digest = sources_of(forked)[0]
        with urllib.request.urlopen(f"{mirror.url}/sha256/{digest}", context=context) as answer:
            assert hashlib.sha256(answer.read()).hexdigest() == digest


def test_other_machines_are_warned_of(forked: TinyWorld) -> None:
    with mirroring(forked, "--only", bind="0.0.0.0:0") as mirror:
        mirror.wait_until_it_says("can read, without a password, everything that 1 lock names")
        assert mirror.status("sha256/abc?token=s3cret") == 404
        mirror.wait_until_it_says("GET '/sha256/abc' 404")
        assert "s3cret" not in mirror.said


def test_what_cannot_be_served(forked: TinyWorld, tmp_path: Path) -> None:
    assert "--bind" in forked.run("serve", "--bind", "nowhere:x", status=2).err
    assert parse_bind("0") == parse_bind(":0")
    assert "cannot listen" in forked.run("serve", "--bind", "192.0.2.1:0", status=2).err
    assert "PEM files" in forked.run("serve", "--tls-cert", forked.config, status=2).err
    assert "certificate" in forked.run("serve", "--tls-key", forked.config, status=2).err
    assert "no such lock" in forked.run("serve", "--lock", tmp_path / "none.lock", status=2).err
    (forked.project / "lockbuild.lock").unlink()
    assert "lock" in forked.run("serve", "--only", status=2).err
