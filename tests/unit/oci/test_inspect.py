"""Images in a file are listed as they are; what else is in it is passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockbuild.errors import FetchError
from lockbuild.model.digest import Digest
from lockbuild.oci.inspect import inspect_archive
from lockbuild.oci.layout import blob_data, write_layout

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = b"a layer"


def descriptor(data: bytes, media_type: str) -> dict[str, Any]:
    return {"digest": str(Digest.of(data)), "mediaType": media_type, "size": len(data)}


def manifest(config: bytes, config_type: str, **further: str) -> bytes:
    layers = [descriptor(LAYER, "application/vnd.oci.image.layer.v1.tar")]
    return json.dumps({"config": descriptor(config, config_type), "layers": layers, **further}).encode()


def test_an_artefact_beside_an_image_is_passed_over(tmp_path: Path) -> None:
    config = json.dumps(
        {"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [str(Digest.of(LAYER))]}}
    )
    image = manifest(config.encode(), "application/vnd.oci.image.config.v1+json")
    contents = b'{"schema":1}'
    artefact = manifest(
        contents, "application/vnd.example.contents.v1+json", artifactType="application/vnd.example"
    )
    index = json.dumps({"manifests": [descriptor(image, MANIFEST), descriptor(artefact, MANIFEST)]}).encode()
    file = tmp_path / "some.tar"
    parts: list[bytes] = []
    blobs = [blob_data(data) for data in (config.encode(), image, contents, artefact, LAYER)]
    write_layout(index, blobs, lambda data: parts.append(bytes(data)))
    file.write_bytes(b"".join(parts))
    assert [found.manifest for found in inspect_archive(file).images] == [Digest.of(image)]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="cannot read it") as caught:
        inspect_archive(tmp_path / "none.tar")
    assert caught.value.hint == "look at what stands there, or name another file"
