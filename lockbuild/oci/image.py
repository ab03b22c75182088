"""An environment as an OCI image: configuration and manifest, computed without an engine.

OCI image specification 1.1, config.md and manifest.md. Pure: the bytes follow from the trees' digests, the layers,
the variables and the labels, so every machine gets the same image ID. Layers are the trees in their order. Where
they are not compressed, a layer's blob digest, its diff ID and the tree's digest are one and the same. How they are
compressed changes the manifest and nothing of the configuration.

``created`` is the epoch, in the configuration and in the history: the specification lets it be absent, but
engines then show and compare the year 1, and some scanners refuse that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockbuild.model.digest import Digest
from lockbuild.model.environment import BUILD_ROOT, GID, UID, Environment
from lockbuild.model.platform import Platform
from lockbuild.oci.encoders import MEDIA_TYPES
from lockbuild.oci.layers import EncodedLayer
from lockbuild.oci.sizes import layer_size

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
TITLE = "org.opencontainers.image.title"
LOCK_LABEL = "lockbuild.lock.environment"
"""The label that has the digest of what the lock says of the environment (`Lock.environment_digest`)."""
HISTORY = "lockbuild: "
"""What ``created_by`` of a layer begins with; ``NAME at MOUNT`` follows."""

_CREATED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Image:
    """``config`` and ``manifest`` are the exact bytes behind their digests. ``config_digest`` is the image ID
    of a classic Docker store, ``manifest_digest`` that of a containerd store. ``layers`` in their order."""

    platform: Platform
    config: bytes
    config_digest: Digest
    manifest: bytes
    manifest_digest: Digest
    layers: tuple[EncodedLayer, ...]

    @property
    def diff_ids(self) -> tuple[Digest, ...]:
        """The trees' digests."""
        return tuple(layer.diff_id for layer in self.layers)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the layers, as they are compressed."""
        return tuple(layer.size for layer in self.layers)


def compute(
    environment: Environment, *, labels: Mapping[str, str], layers: Sequence[EncodedLayer] | None = None
) -> Image:
    """The image of ``environment``, with ``labels``, over ``layers``: those of its trees in their order, by default
    not compressed.

    Reads at most names and sizes of the trees' files, no contents; once for each tree in a process.
    """
    if layers is None:
        layers = [plain_layer(tree.digest, layer_size(tree.digest, tree.root)) for tree in environment.trees]
    assert [layer.diff_id for layer in layers] == [tree.digest for tree in environment.trees]
    config = configuration(environment, labels=labels)
    manifest = canonical_json(
        {
            "config": descriptor(CONFIG_TYPE, Digest.of(config), len(config)),
            "layers": [descriptor(layer.media_type, layer.digest, layer.size) for layer in layers],
            "mediaType": MANIFEST_TYPE,
            "schemaVersion": 2,
        }
    )
    return Image(
        environment.platform, config, Digest.of(config), manifest, Digest.of(manifest), tuple(layers)
    )


def configuration(environment: Environment, *, labels: Mapping[str, str]) -> bytes:
    """The configuration of that image, whose digest is the image's ID; whatever its layers are. Reads no file."""
    return canonical_json(
        {
            "architecture": environment.platform.architecture,
            "config": {
                "Cmd": ["/bin/sh"],
                "Env": sorted(f"{name}={value}" for name, value in environment.variables.items()),
                "Labels": dict(labels),
                "User": f"{UID}:{GID}",
                "WorkingDir": BUILD_ROOT,
            },
            "created": _CREATED,
            "history": [
                {"created": _CREATED, "created_by": f"{HISTORY}{tree.name} at {tree.mount}"}
                for tree in environment.trees
            ],
            "os": environment.platform.os,
            "rootfs": {"diff_ids": [str(tree.digest) for tree in environment.trees], "type": "layers"},
        }
    )


def plain_layer(diff_id: Digest, size: int) -> EncodedLayer:
    """The layer of a tree whose canonical tar has ``size`` bytes, not compressed."""
    return EncodedLayer(diff_id, diff_id, size, MEDIA_TYPES["none"])


def image_labels(title: str, locked: Digest | None) -> dict[str, str]:
    """The labels of an environment's image: its ``title``, and what the lock says of it (`Lock.environment_digest`).

    No clock, no place and no revision of the project: who has the same lock has the same image.
    """
    return {TITLE: title} if locked is None else {TITLE: title, LOCK_LABEL: str(locked)}


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no white space, UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def descriptor(media_type: str, digest: Digest, size: int) -> dict[str, Any]:
    """An OCI content descriptor (descriptor.md)."""
    return {"digest": str(digest), "mediaType": media_type, "size": size}
