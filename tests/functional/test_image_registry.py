"""Images to a registry and from there, over TLS with a password; what others read of it, and what they write."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockbuild.model.digest import Digest
from tests.support.registry import Registry, registry, skopeo
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

OTHER = "linux/arm64" if str(PLATFORM) == "linux/amd64" else "linux/amd64"


@dataclass
class Pushing:
    """A world whose lock is materialised with every compression, and a registry that it may write to."""

    world: TinyWorld
    registry: Registry

    def reference(self, name: str) -> str:
        return f"{self.registry.host}/{name}"

    def inspect(self, name: str, *options: str) -> dict[str, object]:
        shown = skopeo("inspect", *options, *self.registry.skopeo, f"docker://{self.reference(name)}")
        value: dict[str, object] = json.loads(shown.stdout)
        return value

    def uploads(self) -> int:
        """How many blobs came in so far."""
        return sum("/blobs/uploads/" in path for path in self.registry.requests("PUT"))


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushing]:
    directory = tmp_path_factory.mktemp("images")
    with (
        tiny_world(directory / "world") as world,
        registry(directory / "registry", tls=True, password=True) as one,
    ):
        world.extra_environ = one.docker_config(directory / "docker")
        world.config.write_text(f'{world.config.read_text()}ca = ["{one.certificate}"]\n')
        world.run("lock", "--materialise", "--compression", "zstd,gzip")
        yield Pushing(world, one)


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_what_is_pushed_is_what_the_lock_records(pushing: Pushing, tmp_path: Path, compression: str) -> None:
    world = pushing.world
    name = f"team/{compression}:1"
    pushed = world.run("image", "push", pushing.reference(name), "--compression", compression, "--json").value
    digests = world.run("image", "digest", "--compression", compression, "--json").value["images"][0]
    assert pushed["reference"] == f"{pushing.reference(f'team/{compression}')}@{digests['manifest']}"
    assert pushed["tag"] == "1"
    assert pushing.inspect(name)["Digest"] == digests["manifest"]
    assert pushing.inspect(name)["Architecture"] == PLATFORM.architecture
    target = tmp_path / "copy"
    skopeo(
        "copy", *pushing.registry.skopeo_copy("src"), f"docker://{pushing.reference(name)}", f"dir:{target}"
    )
    assert str(Digest.of((target / "manifest.json").read_bytes())) == digests["manifest"]
    again = world.run("image", "push", pushing.reference(name), "--compression", compression, "--json").value
    assert again["sent"] == {"layers": 0, "bytes": 0}
    plain = world.run("image", "push", pushing.reference(name), "--compression", compression).out
    assert plain.splitlines()[0] == pushed["reference"]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_pull_makes_the_trees(pushing: Pushing, tmp_path: Path, compression: str) -> None:
    world, store = pushing.world, tmp_path / "store"
    reference = world.run(
        "image", "push", pushing.reference(f"pull/{compression}:1"), "--compression", compression, "--json"
    ).value["reference"]
    world.server.requests.clear()
    pulled = world.run("image", "pull", reference, "--json", store=store).value
    assert pulled["reference"] == reference
    assert pulled["made"] == ["base", "derive.words"]
    assert world.run("sync", "--offline", "--json", store=store).value["made"] == []
    assert world.server.requests == []
    again = world.run("image", "pull", reference, "--json", store=store).value
    assert (again["made"], again["unchanged"]) == ([], 2)


def test_only_layers_that_the_registry_lacks_are_sent(pushing: Pushing, tmp_path: Path) -> None:
    world = pushing.world.fork(tmp_path)
    world.run("image", "push", pushing.reference("changing:1"))
    world.edit("toolchain.toml", "tr a-z A-Z", "tr a-z B-ZA")
    world.run("lock", "--materialise")
    before = pushing.uploads()
    sent = world.run("image", "push", pushing.reference("changing:2"), "--json").value["sent"]
    assert sent["layers"] == 1
    assert pushing.uploads() == before + 2  # that layer and the configuration


def test_several_platforms_are_one_image(pushing: Pushing, tmp_path: Path) -> None:
    """The other platform is of scripts only: nothing of it need run here."""
    world = pushing.world.fork(tmp_path)
    (world.project / "toolchain.toml").write_text(
        f'schema = 1\nname = "tiny"\nplatforms = ["{PLATFORM}", "{OTHER}"]\n\n'
        '[base.debian]\nsuite = "forky"\npackages = ["busybox", "greeting"]\n'
    )
    (world.project / "lockbuild.toml").write_text(
        '[project]\nname = "tiny"\ntoolchain = "./toolchain.toml"\n\n'
        '[targets.tiny]\nsteps = ["cp $SOURCE/main.txt out.txt"]\noutputs = ["out.txt"]\n'
    )
    foreign = OTHER.rpartition("/")[2]
    world.archive.add(
        "busybox", architecture=foreign, contents={"usr/bin/busybox": b"not run"}, essential="yes"
    )
    world.publish()
    both = ("--platform", str(PLATFORM), "--platform", OTHER)
    world.run("lock", "--materialise", *both)
    pushed = world.run("image", "push", pushing.reference("both:1"), *both, "--json").value
    assert pushed["reference"].endswith(f"@{pushed['index']}")
    index = pushing.inspect("both:1", "--raw")
    platforms = [entry["platform"]["architecture"] for entry in index["manifests"]]  # type: ignore[attr-defined]
    assert platforms == ["amd64", "arm64"]
    for platform in (str(PLATFORM), OTHER):
        pulled = world.run(
            *("image", "pull", pushed["reference"], "--platform", platform, "--json"),
            store=tmp_path / foreign,
        ).value
        assert pulled["platform"] == platform
    assert pulled["made"] == ["base"]


def test_what_skopeo_pushes_of_our_archive_pulls(pushing: Pushing, tmp_path: Path) -> None:
    world, archive = pushing.world, tmp_path / "image.tar"
    world.run("image", "build", "-o", archive)
    for name, options in (
        ("by-skopeo/plain", ()),
        ("by-skopeo/packed", ("--dest-compress", "--dest-compress-format", "zstd")),
        ("by-skopeo/docker", ("--format", "v2s2")),
    ):
        skopeo(
            *("copy", *options, *pushing.registry.skopeo_copy("dest")),
            f"oci-archive:{archive}",
            f"docker://{pushing.reference(name)}:1",
        )
        pulled = world.run(
            "image", "pull", f"{pushing.reference(name)}:1", "--json", store=tmp_path / name
        ).value
        assert pulled["made"] == ["base", "derive.words"], name


def test_another_image_is_refused(pushing: Pushing, tmp_path: Path) -> None:
    other = pushing.world.fork(tmp_path / "other")
    other.edit("toolchain.toml", "tr a-z A-Z", "tr a-z B-ZA")
    other.run("lock", "--materialise")
    reference = other.run("image", "push", pushing.reference("another:1"), "--json").value["reference"]
    store = tmp_path / "store"
    refused = pushing.world.run("image", "pull", reference, store=store, status=5)
    assert re.search(r"it is the image sha256:\w+, but the lock records sha256:\w+", refused.err)
    assert not list(store.glob("trees/sha256/*"))


def test_layers_under_a_false_name_are_refused(pushing: Pushing, tmp_path: Path) -> None:
    """The right configuration over wrong layers, as only who owns a registry can make it."""
    world = pushing.world
    pushed = world.run("image", "push", pushing.reference("false:1"), "--json").value
    data = tmp_path / "registry/data"
    shutil.copytree(pushing.registry.directory / "data", data)
    with registry(tmp_path / "registry") as own:
        manifest = own.blob_file(pushed["reference"].rpartition("@")[2])
        value = json.loads(manifest.read_bytes())
        value["layers"].reverse()
        changed = json.dumps(value).encode()
        digest = Digest.of(changed)
        file = own.blob_file(str(digest))
        file.parent.mkdir(parents=True)
        file.write_bytes(changed)
        repository = data / "docker/registry/v2/repositories/false/_manifests"
        for place in (f"revisions/sha256/{digest.hex}/link", "tags/1/current/link"):
            (repository / place).parent.mkdir(parents=True, exist_ok=True)
            (repository / place).write_text(str(digest))
        refused = world.run("image", "pull", f"{own.host}/false:1", store=tmp_path / "store", status=5)
    assert "unpacks to another tree than it should" in refused.err
    assert not list((tmp_path / "store").glob("trees/sha256/*"))


def test_a_lock_that_records_nothing_cannot_know(pushing: Pushing, tmp_path: Path) -> None:
    world = pushing.world.fork(tmp_path)
    reference = world.run("image", "push", pushing.reference("unknown:1"), "--json").value["reference"]
    (world.project / "lockbuild.lock").unlink()
    world.run("lock")
    assert "lock --materialise" in world.run("image", "pull", reference, status=3).err


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("push", "team/image:1"), 2, "names no registry"),
        (("push", f"HOST/team@sha256:{'0' * 64}"), 2, "follows from the lock"),
        (("pull", "HOST/Team:1"), 2, "is not a repository's name"),
        (("pull", "HOST/team/nothing:1"), 4, "404"),
        (("push", "HOST/team:1", "--platform", OTHER), 2, "the lock is not for"),
        (("push", "HOST/team:1", "--offline"), 4, "the network must not be used"),
    ],
)
def test_what_cannot_be(pushing: Pushing, arguments: tuple[str, ...], status: int, text: str) -> None:
    arguments = tuple(argument.replace("HOST", pushing.registry.host) for argument in arguments)
    assert text in pushing.world.run("image", *arguments, status=status).err
