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
from tests.support.command import lockbuild

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = b"a layer"


def descriptor(data: bytes, media_type: str) -> dict[str, Any]:
    return {"digest": str(Digest.of(data)), "mediaType": media_type, "size": len(data)}


def manifest(config: bytes, config_type: str, **further: str) -> bytes:
    layers = [descriptor(LAYER, "application/vnd.oci.image.layer.v1.tar")]
    return json.dumps({"config": descriptor(config, config_type), "layers": layers, **further}).encode()


def written(file: Path, index: bytes, *blobs: bytes) -> Path:
    parts: list[bytes] = []
    write_layout(index, [blob_data(data) for data in blobs], lambda data: parts.append(bytes(data)))
    file.write_bytes(b"".join(parts))
    return file


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
    file = written(tmp_path / "some.tar", index, config.encode(), image, contents, artefact, LAYER)
    assert [found.manifest for found in inspect_archive(file).images] == [Digest.of(image)]


def test_an_image_cannot_forge_lines_or_reach_the_terminal(tmp_path: Path) -> None:
    config = json.dumps(
        {
            "os": "li\nnux",
            "architecture": "amd64\x1b[2J",
            "config": {"Labels": {"a\u202e": "b\n  label     good=yes"}},
            "history": [{"created_by": "step\x1b]0;x\x07"}],
            "rootfs": {"diff_ids": [str(Digest.of(LAYER))]},
        }
    ).encode()
    image = manifest(config, "application/vnd.oci.image.config.v1+json")
    named = {**descriptor(image, MANIFEST), "annotations": {"io.containerd.image.name": "x\ny"}}
    file = written(tmp_path / "i.tar", json.dumps({"manifests": [named]}).encode(), config, image, LAYER)
    lines = lockbuild("image", "inspect", file).out.splitlines()
    assert [lines[0], *lines[3:5]] == [
        "li\\nnux/amd64\\x1b[2J",
        "  called    x\\ny",
        "  label     a\\u202e=b\\n  label     good=yes",
    ]
    assert len(lines) == 6
    assert lines[5].startswith("  step\\x1b]0;x\\x07 ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="cannot read it") as caught:
        inspect_archive(tmp_path / "none.tar")
    assert caught.value.hint == "look at what stands there, or name another file"
