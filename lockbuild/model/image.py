"""What a registry says of an image: its index, manifest and configuration, read and checked.

OCI image specification 1.1 (image-index.md, manifest.md, config.md), and the formats that it grew out of: Docker's
image manifest version 2, schema 2. Keys that lockbuild has no use for are passed over. Nobody vouches for these
documents beyond their digest: what does not fit is an error that names the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIG_TYPES = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_LAYER_TYPES = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
)
_OLD_TYPES = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
_USUAL_VARIANTS = {"amd64": (None, "v1"), "arm64": (None, "v8")}
"""The variants that every machine of the architecture runs, the preferred one first."""


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, strict=True)


class ImagePlatform(_Document):
    """What an entry of an index is for."""

    os: str
    architecture: str
    variant: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Descriptor(_Document):
    """A content descriptor: what type of bytes, which, and how many."""

    media_type: str = Field(alias="mediaType", max_length=255)
    digest: Digest
    size: int = Field(ge=0, lt=1 << 63)
    platform: ImagePlatform | None = None


class ImageIndex(_Document):
    """Manifests of one image for several platforms."""

    manifests: tuple[Descriptor, ...]

    @property
    def platforms(self) -> list[str]:
        """What it is for, as people write it; attestations, which are for nothing, are not among them."""
        found = {str(entry.platform) for entry in self.manifests if entry.platform is not None}
        return sorted(found - {"unknown/unknown"})

    def entry(self, platform: Platform) -> Descriptor | None:
        """The manifest for ``platform``, of several variants the one that all machines run; None where it has none."""
        fitting = [
            entry
            for entry in self.manifests
            if entry.platform is not None
            and (entry.platform.os, entry.platform.architecture) == (platform.os, platform.architecture)
        ]
        for variant in _USUAL_VARIANTS[platform.architecture]:
            for entry in fitting:
                if entry.platform is not None and (entry.platform.variant or None) == variant:
                    return entry
        return None


class _Typed(_Document):
    media_type: str | None = Field(default=None, alias="mediaType")


class ImageManifest(_Document):
    """One image: its configuration and its layers, the lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class _Execution(_Document):
    env: tuple[str, ...] | None = Field(default=None, alias="Env")


class _RootFs(_Document):
    type: str
    diff_ids: tuple[Digest, ...]


class ImageConfig(_Document):
    """What of an image's configuration decides its root file system and its variables."""

    os: str
    architecture: str
    created: str | None = None
    config: _Execution | None = None
    rootfs: _RootFs

    @property
    def diff_ids(self) -> tuple[Digest, ...]:
        """The digests of the layers' tars, the lowest first."""
        return self.rootfs.diff_ids

    @property
    def variables(self) -> Iterator[tuple[str, str]]:
        """What its processes see, in its order."""
        for item in (self.config.env if self.config else None) or ():
            name, _, value = item.partition("=")
            yield name, value


_D = TypeVar("_D", bound=_Document)


def read_index(data: bytes, *, on: str) -> ImageIndex:
    """An image index; IntegrityError where it is none."""
    return _read(ImageIndex, data, "an image index", on)


def read_manifest(data: bytes, media_type: str | None = None, *, on: str) -> ImageManifest:
    """An image's manifest, of the ``media_type`` that the registry says, else of the one that it says itself.

    IntegrityError where it is none; ResolveError where it is of a kind that is not supported: schema 1, something that
    is no image, layers that are encrypted or stand elsewhere."""
    if media_type is None:
        media_type = _read(_Typed, data, "an image manifest", on).media_type or MANIFEST_TYPES[0]
    if media_type in _OLD_TYPES:
        raise ResolveError(
            "its manifest is of Docker's schema 1, which says too little of its layers to verify them",
            on=on,
            hint="push it again with a Docker of this decade, or copy it with `skopeo copy --format v2s2`",
        )
    if media_type not in MANIFEST_TYPES:
        raise ResolveError(f"it is not an image: its manifest is of the type {media_type!r}", on=on)
    manifest = _read(ImageManifest, data, "an image manifest", on)
    if manifest.config.media_type not in _CONFIG_TYPES:
        raise ResolveError(
            f"it is not an image: its configuration is of the type {manifest.config.media_type!r}", on=on
        )
    for number, layer in enumerate(manifest.layers, 1):
        if reason := _unsupported(layer.media_type):
            raise ResolveError(
                f"layer {number} of {len(manifest.layers)} ({layer.digest}) {reason}",
                on=on,
                hint="make an image without such layers, and name that",
            )
    return manifest


def read_config(data: bytes, manifest: ImageManifest, *, on: str) -> ImageConfig:
    """The configuration that belongs to ``manifest``; IntegrityError where it is none, or speaks of other layers."""
    config = _read(ImageConfig, data, "an image's configuration", on)
    if len(config.diff_ids) != len(manifest.layers):
        raise IntegrityError(
            f"the image's configuration speaks of {len(config.diff_ids)} layers, "
            f"its manifest of {len(manifest.layers)}",
            on=on,
        )
    return config


def _unsupported(media_type: str) -> str | None:
    if media_type.endswith("+encrypted"):
        return "is encrypted, and lockbuild has no keys"
    if "nondistributable" in media_type or ".foreign." in media_type:
        return "is a foreign one, which no registry keeps"
    if media_type not in _LAYER_TYPES:
        return f"is of the type {media_type!r}, which is not a tar (plain, gzip or zstd)"
    return None


def _read(model: type[_D], data: bytes, what: str, on: str) -> _D:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise IntegrityError(
            f"it is not {what}: {place + ': ' if place else ''}{first['msg'][:200]}", on=on
        ) from None


def repeated(layers: Sequence[Descriptor]) -> Iterator[Descriptor]:
    """``layers``, each blob once."""
    return iter({layer.digest: layer for layer in layers}.values())


def read_artefact(data: bytes, *, on: str) -> ImageManifest:
    """The manifest of an artefact, which need be no image; IntegrityError where it is no manifest."""
    return _read(ImageManifest, data, "an artefact's manifest", on)
