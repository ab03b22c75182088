"""What registries say of images: what is understood, and how the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.image import read_config, read_index, read_manifest
from lockbuild.model.platform import Platform
from tests.support.images import (
    OCI_MANIFEST,
    Layer,
    described,
    file,
    image,
    index,
)

AMD = Platform.parse("linux/amd64")
ARM = Platform.parse("linux/arm64")


@pytest.mark.parametrize("docker", [False, True])
def test_an_image_is_read(docker: bool) -> None:
    layers = [Layer.of(file("a"), compression=kind) for kind in ("none", "gzip", "zstd")]
    made = image(*layers, env=["A=1", "B", "C=x=y"], docker=docker)
    for media_type in (made.media_type, None):
        manifest = read_manifest(made.manifest, media_type, on="x")
        config = read_config(made.blobs[str(manifest.config.digest)], manifest, on="x")
        assert len(config.diff_ids) == len(manifest.layers) == 3
        assert list(config.variables) == [("A", "1"), ("B", ""), ("C", "x=y")]


def test_a_manifest_that_does_not_name_its_type_is_of_oci() -> None:
    made = image(Layer.of(file("a")))
    assert "mediaType" in json.loads(made.manifest)
    value = json.loads(made.manifest)
    del value["mediaType"]
    assert read_manifest(json.dumps(value).encode(), on="x") == read_manifest(made.manifest, on="x")


def entry(architecture: str, variant: str | None, size: int) -> dict[str, Any]:
    platform = {"os": "linux", "architecture": architecture, **({"variant": variant} if variant else {})}
    return {**described(bytes(size), OCI_MANIFEST), "platform": platform}


@pytest.mark.parametrize(
    ("platform", "entries", "chosen"),
    [
        (ARM, [("arm", "v7"), ("arm64", "v8"), ("amd64", None)], 1),
        (ARM, [("arm64", "v9"), ("arm64", "v8"), ("arm64", None)], 2),
        (ARM, [("arm64", "v9"), ("arm", "v8")], None),
        (AMD, [("amd64", "v3"), ("amd64", "v1"), ("arm64", "v8")], 1),
        (AMD, [("386", None)], None),
    ],
)
def test_the_variant_that_every_machine_runs(
    platform: Platform, entries: list[tuple[str, str | None]], chosen: int | None
) -> None:
    listed = [entry(architecture, variant, size) for size, (architecture, variant) in enumerate(entries)]
    found = read_index(json.dumps({"manifests": listed}).encode(), on="x").entry(platform)
    assert (found.size if found else None) == chosen


def test_attestations_are_no_platform() -> None:
    both = index(image(Layer.of(file("a"))), image(Layer.of(file("a")), architecture="arm64"))
    assert read_index(both.manifest, on="x").platforms == ["linux/amd64", "linux/arm64/v8"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "EOF"),
        (b"[]", "object"),
        (b"[" * 100_000, "recursion|depth|valid"),
        (b'{"config": {}}', "config.mediaType"),
        (
            b'{"config": {"mediaType": "x", "digest": "sha256:%s", "size": 1}, "layers": "none"}'
            % (b"0" * 64),
            "layers",
        ),
        (
            b'{"config": {"mediaType": "x", "digest": "md5:1", "size": 1}, "layers": []}',
            "config.digest: .*not a digest",
        ),
        (
            b'{"config": {"mediaType": "x", "digest": "sha256:%s", "size": -1}, "layers": []}' % (b"0" * 64),
            "config.size",
        ),
        (b'{"mediaType": 1}', "mediaType"),
    ],
)
def test_what_is_no_manifest(data: bytes, what: str) -> None:
    with pytest.raises(IntegrityError, match=f"it is not an image manifest: (.*)({what})") as caught:
        read_manifest(data, OCI_MANIFEST if b"mediaType" not in data[:12] else None, on="there")
    assert caught.value.on == "there"


@pytest.mark.parametrize("kind", ["json", "prettyjws"])
def test_schema_1_is_refused_in_a_sentence(kind: str) -> None:
    old = f"application/vnd.docker.distribution.manifest.v1+{kind}"
    for data, media_type in ((b"{}", old), (json.dumps({"mediaType": old}).encode(), None)):
        with pytest.raises(ResolveError, match="schema 1"):
            read_manifest(data, media_type, on="x")


@pytest.mark.parametrize("kind", ["text/html", "application/vnd.oci.artifact.manifest.v1+json"])
def test_something_that_is_no_image(kind: str) -> None:
    with pytest.raises(ResolveError, match="it is not an image"):
        read_manifest(b"{}", kind, on="x")


def test_a_configuration_of_another_image() -> None:
    made, other = image(Layer.of(file("a"))), image(Layer.of(file("a")), Layer.of(file("b")))
    manifest, another = (read_manifest(one.manifest, on="x") for one in (made, other))
    with pytest.raises(IntegrityError, match="speaks of 2 layers, its manifest of 1"):
        read_config(other.blobs[str(another.config.digest)], manifest, on="x")
    with pytest.raises(IntegrityError, match="rootfs"):
        read_config(b'{"os": "linux", "architecture": "amd64"}', manifest, on="x")
