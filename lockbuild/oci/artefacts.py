"""What a cache holds, as OCI artefacts: trees, source files, and what targets built to. Format: ``docs/formats.md``.

OCI image specification 1.1, manifest.md, "Guidelines for Artifact Usage". Deterministic: the same thing has the
same manifest, whoever pushes it. Nothing in one is believed: a tree must unpack to the digest that it is called by,
a file must have the digest that the lock says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.image import Descriptor, read_artefact
from lockbuild.model.outcome import BuiltFile
from lockbuild.oci.image import MANIFEST_TYPE, TITLE, canonical_json, descriptor
from lockbuild.oci.layers import EncodedLayer

TREE_TYPE = "application/vnd.lockbuild.tree.v1"
SOURCE_TYPE = "application/vnd.lockbuild.source.v1"
OUTPUTS_TYPE = "application/vnd.lockbuild.outputs.v1"
"""What an artefact is (``artifactType``)."""
OUTPUTS_CONFIG_TYPE = "application/vnd.lockbuild.outputs.config.v1+json"
FILE_TYPE = "application/octet-stream"
EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
"""The configuration of an artefact that has none."""
"""The annotation by which ``oras pull`` names a file."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """``tag`` says where it stands in its repository. ``manifest`` and ``config`` are exact bytes; the layers of
    ``layers`` are to be there before it."""

    tag: str
    manifest: bytes
    config: bytes
    layers: tuple[Descriptor, ...]


def tree_tag(digest: Digest) -> str:
    """Where the tree ``digest`` stands."""
    return f"tree-{digest.hex}"


def source_tag(identity: Digest) -> str:
    """Where the file of a source stands, by its SHA-256 or by whatever else binds it (`Source.identity`)."""
    return f"source-{identity.hex}"


def outputs_tag(input_digest: Digest) -> str:
    """Where the outputs of the plan ``input_digest`` stand."""
    return f"outputs-{input_digest.hex}"


def tree_artefact(layer: EncodedLayer) -> Artefact:
    """A tree as one layer."""
    return _artefact(tree_tag(layer.diff_id), TREE_TYPE, [(layer.media_type, layer.digest, layer.size, None)])


def source_artefact(identity: Digest, digest: Digest, size: int, name: str) -> Artefact:
    """A file that a lock names."""
    return _artefact(source_tag(identity), SOURCE_TYPE, [(FILE_TYPE, digest, size, name)])


def outputs_artefact(
    input_digest: Digest, target: str, platform: str, files: Sequence[BuiltFile]
) -> Artefact:
    """What ``target`` built to, from the plan ``input_digest``."""
    ordered = sorted(files, key=lambda file: file.path.encode())
    config = {
        "files": [{"path": file.path, "sha256": file.sha256.hex, "size": file.size} for file in ordered],
        "input": str(input_digest),
        "platform": platform,
        "target": target,
    }
    layers = [(FILE_TYPE, file.sha256, file.size, file.path) for file in ordered]
    return _artefact(
        outputs_tag(input_digest), OUTPUTS_TYPE, layers, canonical_json(config), OUTPUTS_CONFIG_TYPE
    )


def only_layer(manifest: bytes, *, on: str) -> Descriptor:
    """The one layer of an artefact; IntegrityError where it has none or several."""
    layers = read_artefact(manifest, on=on).layers
    if len(layers) != 1:
        raise IntegrityError(f"an artefact with {len(layers)} layers, where one is expected", on=on)
    return layers[0]


def _artefact(
    tag: str,
    kind: str,
    layers: Sequence[tuple[str, Digest, int, str | None]],
    config: bytes = EMPTY,
    config_type: str = EMPTY_TYPE,
) -> Artefact:
    described = [_layer(*layer) for layer in layers]
    manifest = canonical_json(
        {
            "artifactType": kind,
            "config": descriptor(config_type, Digest.of(config), len(config)),
            "layers": described,
            "mediaType": MANIFEST_TYPE,
            "schemaVersion": 2,
        }
    )
    return Artefact(
        tag,
        manifest,
        config,
        tuple(
            Descriptor(media_type=media_type, digest=digest, size=size)
            for media_type, digest, size, _ in layers
        ),
    )


def _layer(media_type: str, digest: Digest, size: int, title: str | None) -> Mapping[str, Any]:
    described = descriptor(media_type, digest, size)
    return described if title is None else {**described, "annotations": {TITLE: title}}
