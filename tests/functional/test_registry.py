"""The client against a real registry: every way to log in, both directions, and what breaks off on the way."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.config.settings import NetworkConfig
from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference
from lockbuild.store import Store
from lockbuild.transport.http import Http
from lockbuild.transport.registry import Registries
from tests.support.registry import Registry, registry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def client(one: Registry, *, environ: dict[str, str] | None = None, offline: bool = False) -> Registries:
    authorities = [str(one.certificate)] if one.certificate else []
    config = Config(network=NetworkConfig(retries=1, ca=authorities))
    return Registries(Http(config, offline=offline, first_wait=0.01), config, environ=environ or {})


def pushed(registries: Registries, reference: Reference, data: bytes) -> Digest:
    digest = Digest.of(data)
    registries.push_blob(reference, digest, len(data), lambda: [data[:1000], data[1000:]])
    return digest


def image_manifest(config: Digest, size: int, layer: Digest, layer_size: int) -> bytes:
    value = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": str(config),
            "size": size,
        },
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": str(layer), "size": layer_size}
        ],
    }
    return json.dumps(value, sort_keys=True).encode()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry"), tls=True, password=True) as one:
        yield one


@pytest.fixture
def reference(secured: Registry, request: pytest.FixtureRequest) -> Reference:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return Reference(secured.host, f"team/{name}", "1")


@pytest.fixture
def logged_in(secured: Registry, tmp_path: Path) -> Registries:
    return client(secured, environ=secured.docker_config(tmp_path / "docker"))


def test_a_manifest_and_its_blobs_come_back_as_they_went(
    logged_in: Registries, reference: Reference, tmp_path: Path
) -> None:
    config, layer = b"{}", os.urandom(3_000_001)
    manifest = image_manifest(
        pushed(logged_in, reference, config), 2, pushed(logged_in, reference, layer), len(layer)
    )
    assert logged_in.push_manifest(reference, manifest, MANIFEST) == Digest.of(manifest)
    found = logged_in.manifest(reference)
    assert (found.body, found.media_type, found.digest) == (manifest, MANIFEST, Digest.of(manifest))
    assert logged_in.manifest(reference.at(found.digest)).body == manifest
    assert logged_in.tags(reference) == ["1"]
    store = Store(tmp_path / "store")
    logged_in.fetch_blob(reference, Digest.of(layer), store, size=len(layer))
    assert store.verified_blob(Digest.of(layer)).read_bytes() == layer
    assert logged_in.blob_bytes(reference, Digest.of(config), limit=100) == config
