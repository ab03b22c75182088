"""An environment as an OCI image: configuration and manifest, computed without an engine.

OCI image specification 1.1, config.md and manifest.md. Pure: the bytes follow from the trees' digests and
sizes, the variables and the labels, so every machine gets the same image ID. Layers are the trees in their
order, not compressed: then a layer's blob digest, its diff ID and the tree's digest are one and the same.

``created`` is the epoch, in the configuration and in the history: the specification lets it be absent, but
engines then show and compare the year 1, and some scanners refuse that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockbuild.model.digest import Digest
from lockbuild.model.environment import BUILD_ROOT, GID, UID, Environment
from lockbuild.oci.sizes import layer_size

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"

_CREATED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Image:
    """``config`` and ``manifest`` are the exact bytes behind their digests. ``config_digest`` is the image ID
    of a classic Docker store, ``manifest_digest`` that of a containerd store. ``sizes`` of the layers in bytes."""

    config: bytes
    config_digest: Digest
    manifest: bytes
    manifest_digest: Digest
    diff_ids: tuple[Digest, ...]
    sizes: tuple[int, ...]


def compute(environment: Environment, *, labels: Mapping[str, str]) -> Image:
    """The image of ``environment``, with ``labels`` (``org.opencontainers.image.*``).

    Reads names and sizes of the trees' files, no contents; once for each tree in a process.
    """
    diff_ids = tuple(tree.digest for tree in environment.trees)
    sizes = tuple(layer_size(tree.digest, tree.root) for tree in environment.trees)
    config = canonical_json(
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
                {"created": _CREATED, "created_by": f"lockbuild: {tree.name} at {tree.mount}"}
                for tree in environment.trees
            ],
            "os": environment.platform.os,
            "rootfs": {"diff_ids": [str(diff_id) for diff_id in diff_ids], "type": "layers"},
        }
    )
    config_digest = Digest.of(config)
    manifest = canonical_json(
        {
            "config": descriptor(CONFIG_TYPE, config_digest, len(config)),
            "layers": [
                descriptor(LAYER_TYPE, diff_id, size) for diff_id, size in zip(diff_ids, sizes, strict=True)
            ],
            "mediaType": MANIFEST_TYPE,
            "schemaVersion": 2,
        }
    )
    return Image(config, config_digest, manifest, Digest.of(manifest), diff_ids, sizes)


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no white space, UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def descriptor(media_type: str, digest: Digest, size: int) -> dict[str, Any]:
    """An OCI content descriptor (descriptor.md)."""
    return {"digest": str(digest), "mediaType": media_type, "size": size}
