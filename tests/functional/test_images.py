"""``lockbuild image``: the same digests and bytes for everybody, which real tools and engines read."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockbuild.transport.engine import EngineEndpoint
from tests.support.command import Result
from tests.support.engine import PrivateEngine
from tests.support.podman import podman
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world
from tests.support.users import ORDINARY, python_for_everyone

__all__ = ["podman"]

OTHER = "linux/arm64" if str(PLATFORM) == "linux/amd64" else "linux/amd64"
COMPRESSIONS = ("none", "gzip", "zstd")


def lock_of(world: TinyWorld) -> dict[str, Any]:
    return tomllib.loads((world.project / "lockbuild.lock").read_text())


def recorded(world: TinyWorld) -> dict[str, Any]:
    environment: dict[str, Any] = lock_of(world)["environments"][str(PLATFORM)]
    return environment


def digests(world: TinyWorld, *arguments: str, **options: Any) -> dict[str, Any]:
    result = world.run("--json", "image", "digest", *arguments, **options)
    (image,) = result.value["images"]
    return dict(image)


# Digests


def test_the_digest_is_what_the_lock_records(shared: TinyWorld, tmp_path: Path) -> None:
    here = digests(shared)
    assert (here["config"], here["manifest"]) == (recorded(shared)["image"], recorded(shared)["manifest"])
    assert here["recorded"] is False
    # Without the trees the lock says it, and nothing is fetched or made.
    empty = tmp_path / "empty"
    without = digests(
        shared, "--platform", str(PLATFORM), store=empty, environ={"LOCKBUILD_CONFIG": "/nowhere"}
    )
    assert without == {**here, "recorded": True}
    assert not list(empty.glob("trees/sha256/*"))
    assert not list(empty.glob("blobs/sha256/*"))
    text = shared.run("image", "digest").out
    assert text == f"{PLATFORM}\n  config    {here['config']}\n  manifest  {here['manifest']}\n"


def test_what_nobody_knows(shared: TinyWorld, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    result = shared.run("image", "digest", "--compression", "zstd", status=3, store=empty)
    assert "the store lacks trees of it, and the lock does not record it with layers in zstd" in result.err
    assert (
        "hint: run `lockbuild sync`, or have the lock record it: `lockbuild lock --materialise --comp"
        in result.err
    )
    result = shared.run("image", "digest", "--platform", OTHER, status=2)
    assert f"the lock is not for {OTHER} (it is for {PLATFORM})" in result.err
    assert f"hint: run `lockbuild lock --platform {OTHER}`" in result.err
    result = shared.run("image", "inspect", status=3, store=empty)
    assert "hint: run `lockbuild sync`" in result.err


def test_the_lock_records_compressed_layers_and_they_bind(forked: TinyWorld, tmp_path: Path) -> None:
    before = recorded(forked)
    result = forked.run("--json", "lock", "--materialise", "--compression", "zstd,gzip")
    assert {change["name"] for change in result.value["changes"]} == {
        f"image in {compression} ({PLATFORM})" for compression in ("gzip", "zstd")
    }
    environment = recorded(forked)
    layers = environment.pop("layers")
    assert environment == before
    assert list(layers) == ["gzip", "zstd"]
    assert layers["zstd"]["encoder"].startswith("libzstd ")
    assert layers["gzip"]["encoder"].startswith("deflate ")
    # It stays as long as the trees do, without being asked for again; and is canonical.
    forked.run("lock", "--check")
    forked.run("lock", "--materialise")
    assert recorded(forked)["layers"] == layers
    for compression in ("zstd", "gzip"):
        computed = digests(forked, "--compression", compression)
        assert computed["manifest"] == layers[compression]["manifest"]
        assert computed["config"] == before["image"]
        elsewhere = digests(forked, "--compression", compression, store=tmp_path / "empty")
        assert elsewhere == {**computed, "recorded": True}
    # Another one is refused, showing both.
    lock = forked.project / "lockbuild.lock"
    text, other = lock.read_text(), "sha256:" + "5" * 64
    lock.write_text(text.replace(layers["zstd"]["manifest"], other))
    result = forked.run("image", "build", "--compression", "zstd", "-o", tmp_path / "x.tar", status=5)
    assert layers["zstd"]["manifest"] in result.err
    assert other in result.err
    assert "hint: run `lockbuild lock --materialise --compression zstd`" in result.err
    assert not (tmp_path / "x.tar").exists()
    # Where that comes of another encoder, the message says so.
    lock.write_text(text.replace(layers["zstd"]["manifest"], other).replace("libzstd 1.", "libzstd 0."))
    result = forked.run("image", "digest", "--compression", "zstd", status=5)
    assert "hint: the lock's layers were made by 'libzstd 0." in result.err
    assert "and this lockbuild has 'libzstd 1." in result.err
    lock.write_text(text.replace(before["image"], other))
    result = forked.run("image", "digest", status=5)
    assert (
        f"the environment's image came out as {before['image']}, but the lock records {other}" in result.err
    )
    # What the trees make changes with them.
    lock.write_text(text)
    forked.edit("toolchain.toml", "tr a-z A-Z", "tr a-h A-H")
    forked.run("lock")
    assert "environments" not in lock_of(forked)


def test_compressions_that_there_are_not(shared: TinyWorld) -> None:
    result = shared.run("lock", "--materialise", "--compression", "lzma", status=2)
    assert "there is no compression 'lzma' (there is: none, gzip, zstd)" in result.err
    result = shared.run("lock", "--compression", "zstd", status=2)
    assert "--compression goes with --materialise" in result.err


@pytest.fixture
def both(tmp_path: Path) -> Iterator[TinyWorld]:
    """A world for two platforms, with nothing that would have to run on either."""
    with tiny_world(tmp_path) as made:
        made.archive.add("busybox", architecture=OTHER.partition("/")[2], essential="yes")
        made.publish()
        text = (made.project / "toolchain.toml").read_text()
        text = text[: text.index("[derive")].replace(f'"{PLATFORM}"', f'"{PLATFORM}", "{OTHER}"')
        (made.project / "toolchain.toml").write_text(text)
        yield made


def test_an_index_of_several_platforms(both: TinyWorld, tmp_path: Path) -> None:
    chosen = ("--platform", OTHER, "--platform", str(PLATFORM))
    both.run("lock", "--materialise", *chosen)
    computed = both.run("--json", "image", "digest", *chosen).value
    assert [image["platform"] for image in computed["images"]] == [OTHER, str(PLATFORM)]
    from_lock = both.run("--json", "image", "digest", *chosen, store=tmp_path / "empty").value
    assert from_lock["index"] == computed["index"]
    file = tmp_path / "both.tar"
    built = both.run("--json", "image", "build", *chosen, "-o", file).value
    assert built["index"] == computed["index"]
    # The order in which platforms are named does not matter, nor do platforms that are named twice.
    again = both.run("image", "digest", *chosen[2:], *chosen, "--json").value
    assert again["index"] == computed["index"]
    raw = subprocess.run(
        ["skopeo", "inspect", "--raw", f"oci-archive:{file}"], check=True, capture_output=True
    )
    index = json.loads(raw.stdout)
    assert sorted(
        (item["platform"]["architecture"], item["digest"]) for item in index["manifests"]
    ) == sorted((image["platform"].partition("/")[2], image["manifest"]) for image in computed["images"])
    listed = both.run("--json", "image", "inspect", file).value
    assert listed["index"] == computed["index"]
    assert {image["config"] for image in listed["images"]} == {
        image["config"] for image in computed["images"]
    }
    result = both.run("image", "load", *chosen, status=2)
    assert "an engine is given one image at a time" in result.err
    # A lock of before says nothing of sizes.
    lock = both.project / "lockbuild.lock"
    text = lock.read_text()
    places = [line for line in text.split("[environments")[1].splitlines() if line.startswith("size")]
    lock.write_text(text.replace(places[0] + "\n", ""))
    result = both.run("image", "digest", *chosen, status=3, store=tmp_path / "empty")
    assert "the lock does not say how large the manifest for" in result.err


# Files


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_skopeo_reads_the_file(shared: TinyWorld, tmp_path: Path, compression: str) -> None:
    file = tmp_path / "x.tar"
    built = shared.run("--json", "image", "build", "--compression", compression, "-o", file).value
    (image,) = built["images"]
    assert (built["file"], built["size"]) == (str(file), file.stat().st_size)
    assert image["config"] == recorded(shared)["image"]
    assert built["reference"] == f"lockbuild/tiny:{image['config'][7:19]}"
    seen = skopeo("inspect", f"oci-archive:{file}")
    assert seen["Digest"] == image["manifest"]
    assert seen["Labels"]["org.opencontainers.image.title"] == "tiny"
    assert seen["Labels"]["lockbuild.lock.environment"].startswith("sha256:")
    assert seen["Created"] == "1970-01-01T00:00:00Z"
    trees = [tree["digest"] for tree in lock_of(shared)["trees"]]
    assert skopeo("inspect", "--config", f"docker-archive:{file}")["rootfs"]["diff_ids"] == trees
    copy = tmp_path / "copy.tar"
    subprocess.run(
        ["skopeo", "copy", "--quiet", "--preserve-digests", f"oci-archive:{file}", f"oci-archive:{copy}:x:y"],
        check=True,
    )
    (copied,) = shared.run("--json", "image", "inspect", copy).value["images"]
    assert (copied["config"], copied["manifest"]) == (image["config"], image["manifest"])
    assert [layer["name"] for layer in copied["layers"]] == ["base", "derive.words"]


def test_the_file_is_the_same_for_everybody(shared: TinyWorld, tmp_path: Path) -> None:
    home = tmp_path / "home"
    subprocess.run(["cp", "-a", str(shared.project), str(home)], check=True)
    (home / "config.toml").write_text(shared.config.read_text())
    program, variables = python_for_everyone(home)
    subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(home)], check=True)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    for compression in COMPRESSIONS:
        first = tmp_path / "first.tar"
        shared.run("image", "build", "--compression", compression, "-o", first)
        # Another store and directory, another user, another umask, another hash seed.
        command = [program, "-m", "lockbuild", "--store", "store", "--backend", "bubblewrap"]
        done = subprocess.run(
            [*command, "image", "build", "--compression", compression, "-o", "second.tar"],
            env={
                **os.environ,
                **variables,
                "PYTHONHASHSEED": "7",
                "HOME": str(home),
                "LOCKBUILD_CONFIG": str(home / "config.toml"),
            },
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=[],
            umask=0o077,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (home / "second.tar").read_bytes() == first.read_bytes()
        assert (home / "second.tar").stat().st_mode & 0o777 == 0o600


def skopeo(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(["skopeo", *arguments], check=True, capture_output=True, text=True)
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_annotations_and_tags(shared: TinyWorld, tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    built = shared.run(
        *("--json", "image", "build", "-o", file, "-t", "registry.test:5000/team/env:1.0"),
        *("--annotation", "org.opencontainers.image.revision=abc=d", "--annotation", "x=ü"),
    ).value
    # The image keeps the digests that the lock records; what was said of it stands above.
    assert built["images"][0]["manifest"] == recorded(shared)["manifest"]
    index = subprocess.run(
        ["skopeo", "inspect", "--raw", f"oci-archive:{file}"], check=True, capture_output=True
    )
    assert json.loads(index.stdout)["annotations"] == {
        "org.opencontainers.image.revision": "abc=d",
        "x": "ü",
    }
    listed = shared.run("--json", "image", "inspect", file).value
    assert listed["index"] == built["index"]
    assert listed["images"][0]["references"] == ["registry.test:5000/team/env:1.0"]
    for option, value, message in (
        ("--annotation", "revision", "'revision' is no KEY=VALUE"),
        ("--tag", "Team/env", "is not a repository's name"),
        ("--tag", "env:1 0", "is not a tag"),
    ):
        result = shared.run("image", "build", "-o", file, option, value, status=2)
        assert message in result.err


def test_inspect(shared: TinyWorld, tmp_path: Path) -> None:
    (image,) = shared.run("--json", "image", "inspect", "--compression", "zstd").value["images"]
    trees = {tree["name"]: tree["digest"] for tree in lock_of(shared)["trees"]}
    assert {layer["name"]: layer["diff_id"] for layer in image["layers"]} == trees
    assert [layer["mount"] for layer in image["layers"]] == ["/", "/opt/words"]
    assert image["encoder"].startswith("libzstd")
    text = shared.run("image", "inspect", "--compression", "zstd").out
    assert f"  manifest  {image['manifest']}\n" in text
    assert f"  encoder   {image['encoder']}\n" in text
    assert "  label     org.opencontainers.image.title=tiny\n" in text
    assert f"MB  {trees['base']}  zstd {image['layers'][0]['digest']}\n" in text


def test_inspect_of_what_is_no_image(shared: TinyWorld, tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    shared.run("image", "build", "-o", file)
    data = file.read_bytes()
    file.write_bytes(data[:-5000])
    assert "it is cut short" in shared.run("image", "inspect", file, status=5).err
    at = data.index(b'{"architecture":', data.index(b'"Cmd"') - 60)
    file.write_bytes(data[:at] + b"[" + data[at + 1 :])
    assert (
        "it does not have the digest that it is called by"
        in shared.run("image", "inspect", file, status=5).err
    )
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "y.tar", "x.tar"], check=True)
    assert "there is no index.json in it" in shared.run("image", "inspect", tmp_path / "y.tar", status=5).err
    assert "cannot read it" in shared.run("image", "inspect", tmp_path / "nothing", status=4).err


def test_a_file_that_cannot_be_written(shared: TinyWorld, tmp_path: Path) -> None:
    result = shared.run("image", "build", "-o", tmp_path / "nowhere" / "x.tar", status=2)
    assert f"there is no directory {tmp_path}/nowhere" in result.err
    result = shared.run("image", "build", "-o", tmp_path, status=2)
    assert "it is a directory; name a file" in result.err


# Engines


def load(world: TinyWorld, engine: str, *arguments: str) -> dict[str, Any]:
    environ = {"DOCKER_HOST": engine}
    value: dict[str, Any] = world.run("--json", "image", "load", *arguments, environ=environ).value
    return value


def loads_only_what_is_new(world: TinyWorld, endpoint: EngineEndpoint) -> None:
    first = load(world, endpoint.url, "--tag", "team/environment:now")
    environment = recorded(world)
    assert (first["config"], first["manifest"]) == (environment["image"], environment["manifest"])
    assert first["id"] in (environment["image"], environment["manifest"])
    assert first["reference"] == "team/environment:now"
    shown = endpoint.request("GET", "/images/team/environment:now/json").json()
    assert shown["Id"] == first["id"]
    assert shown["RootFS"]["Layers"] == [tree["digest"] for tree in lock_of(world)["trees"]]
    # Twice sends nothing.
    again = load(world, endpoint.url)
    assert again["sent"] == {"layers": 0, "bytes": 0}
    # Where one layer is another, only that is sent.
    world.edit("toolchain.toml", "tr a-z A-Z", "tr a-h A-H")
    world.run("lock")
    changed = load(world, endpoint.url)
    assert changed["config"] != first["config"]
    assert changed["sent"]["layers"] == 1
    assert changed["sent"]["bytes"] < 10_000
    assert endpoint.request("GET", f"/images/{changed['id']}/json").status == 200


@pytest.mark.docker
def test_docker_is_sent_what_it_lacks(forked: TinyWorld, engine: PrivateEngine) -> None:
    loads_only_what_is_new(forked, engine.endpoint)


def test_podman_is_sent_what_it_lacks(forked: TinyWorld, podman: EngineEndpoint) -> None:
    loads_only_what_is_new(forked, podman)


def test_there_is_no_engine(shared: TinyWorld, tmp_path: Path) -> None:
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/nothing"}
    result = shared.run("image", "load", status=7, environ=environ)
    assert "hint: start Docker" in result.err


@pytest.mark.docker
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_docker_load_reads_the_file(
    shared: TinyWorld, engine: PrivateEngine, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "x.tar"
    result = shared.run(
        "image", "build", "-o", file, "-t", f"from-file:{compression}", "--compression", compression
    )
    assert "zstd" not in result.err
    done = subprocess.run(
        ["docker", "load", "--input", str(file)],
        env={**os.environ, **engine.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"from-file:{compression}" in done.stdout
    shown = engine.endpoint.request("GET", f"/images/from-file:{compression}/json").json()
    assert shown["Id"] == recorded(shared)["image"]
    # It is there now, however it came.
    assert load(shared, engine.url)["sent"]["layers"] == 0


def test_users_are_told_which_engines_read_zstd(shared: TinyWorld, tmp_path: Path) -> None:
    result: Result = shared.run("image", "build", "-o", tmp_path / "x.tar", "--compression", "zstd")
    assert "`docker load` reads layers in zstd since Docker 23" in result.err
