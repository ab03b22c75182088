"""Several images under one digest: an OCI image index (image-index.md, 1.1), the multi-platform image of registries.

Pure, as images are: the platforms in their order, canonical JSON, no clock. What people want to say of an image
without changing it (where its source is, which revision) stands here as annotations, so that the manifests below keep
the digests that the lock records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform
from lockbuild.oci.image import MANIFEST_TYPE, Image, canonical_json, descriptor
from lockbuild.oci.layout import INDEX_TYPE


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """What an index says of an image: its platform, and digest and size (bytes) of its manifest."""

    platform: Platform
    manifest: Digest
    size: int

    @classmethod
    def of(cls, image: Image) -> ImageEntry:
        """That of an image that was computed."""
        return cls(image.platform, image.manifest_digest, len(image.manifest))

    def descriptor(self) -> dict[str, Any]:
        """As it stands in an index."""
        return {
            **descriptor(MANIFEST_TYPE, self.manifest, self.size),
            "platform": {"architecture": self.platform.architecture, "os": self.platform.os},
        }


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """``data`` are the exact bytes behind the digest."""

    data: bytes
    digest: Digest


def compute_index(entries: Iterable[ImageEntry], annotations: Mapping[str, str] | None = None) -> ImageIndex:
    """The index of images for different platforms, in the order of those."""
    value: dict[str, Any] = {
        "manifests": [entry.descriptor() for entry in sorted(entries, key=lambda entry: str(entry.platform))],
        "mediaType": INDEX_TYPE,
        "schemaVersion": 2,
    }
    if annotations:
        value["annotations"] = dict(annotations)
    data = canonical_json(value)
    return ImageIndex(data, Digest.of(data))
