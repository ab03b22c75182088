"""What an image is made of: one that was computed here, or one in a file that anybody wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.oci.image import HISTORY, MANIFEST_TYPE, Image
from lockbuild.oci.layout import INDEX_NAME, INDEX_TYPE, LayoutArchive, parse_object

_INDEX_TYPES = (INDEX_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFEST_TYPES = (MANIFEST_TYPE, "application/vnd.docker.distribution.manifest.v2+json")
_DEEPEST = 4
_MOST = 1000


@dataclass(frozen=True, slots=True)
class InspectedLayer:
    """``name`` and ``mount`` of its tree, where lockbuild made the image (else what the history says, and empty);
    ``size`` in bytes, as it is compressed."""

    name: str
    mount: str
    diff_id: Digest
    digest: Digest
    size: int
    compression: str


@dataclass(frozen=True, slots=True)
class InspectedImage:
    """An image; ``references`` are what its file calls it."""

    platform: str
    config: Digest
    manifest: Digest
    labels: Mapping[str, str]
    layers: tuple[InspectedLayer, ...]
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InspectedArchive:
    """The images of a file, and the index over them if there is one."""

    images: Sequence[InspectedImage]
    index: Digest | None


def inspected(image: Image) -> InspectedImage:
    """One that was computed."""
    return _image(json.loads(image.config), json.loads(image.manifest), image.manifest_digest, "image", ())


def inspect_archive(path: Path) -> InspectedArchive:
    """Those in a file: an OCI image layout in a tar. Reads and checks manifests and configurations, no layers.

    IntegrityError where it is none, is cut short or damaged, or lacks a layer that an image needs; FetchError where it
    cannot be read.
    """
    with LayoutArchive(path) as archive:
        if not archive.has(INDEX_NAME):
            raise IntegrityError(
                "it is no image layout: there is no index.json in it",
                on=str(path),
                hint="`docker save` of versions before 25 writes none; `skopeo copy docker-archive:FILE "
                "oci-archive:OTHER` makes one of it",
            )
        try:
            return _archive(archive)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise IntegrityError(
                f"its manifests are not as the OCI specification wants them ({error!r})", on=str(path)
            ) from error


def _archive(archive: LayoutArchive) -> InspectedArchive:
    calls = _tags(archive)
    top = archive.json(INDEX_NAME)["manifests"]
    images = []
    for item, names in _manifests(archive, top, (), 0):
        digest = Digest.parse(item["digest"])
        manifest = archive.json(digest)
        config = Digest.parse(manifest["config"]["digest"])
        if "artifactType" in manifest or manifest["config"].get("mediaType", "").endswith("empty.v1+json"):
            continue  # an artefact, as that of a bundle beside its images
        for layer in manifest["layers"]:
            blob = Digest.parse(layer["digest"])
            if not archive.has(blob):
                raise IntegrityError(f"it lacks the layer {blob}", on=str(archive.path))
        references = tuple(dict.fromkeys([*calls.get(config, ()), *names]))
        images.append(_image(archive.json(config), manifest, digest, str(archive.path), references))
        if len(images) > _MOST:
            raise ValueError(f"more than {_MOST} images")
    index = [Digest.parse(item["digest"]) for item in top if item.get("mediaType") in _INDEX_TYPES]
    return InspectedArchive(images, index[0] if index else None)


def _tags(archive: LayoutArchive) -> dict[Digest, list[str]]:
    """What manifest.json, as docker save writes it, calls the images, by their configurations."""
    if not archive.has("manifest.json"):
        return {}
    data = archive.entry("manifest.json").read()
    listed = parse_object(b'{"images":' + data + b"}", on=f"{archive.path}: manifest.json")["images"]
    found = {}
    for item in listed:
        digits = str(item["Config"]).rpartition("/")[2].removesuffix(".json")
        found[Digest(digits)] = [str(tag) for tag in item.get("RepoTags") or ()]
    return found


def _manifests(
    archive: LayoutArchive, items: list[dict[str, Any]], names: tuple[str, ...], depth: int
) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """The manifests below an index, with what the index calls them."""
    if depth > _DEEPEST:
        raise ValueError("indexes in indexes in indexes")
    for item in items:
        annotations = item.get("annotations") or {}
        own = [str(annotations[key]) for key in ("io.containerd.image.name",) if key in annotations]
        called = (*names, *own)
        if item.get("mediaType") in _INDEX_TYPES:
            below = archive.json(Digest.parse(item["digest"]))["manifests"]
            yield from _manifests(archive, below, called, depth + 1)
        elif item.get("mediaType") in _MANIFEST_TYPES:
            yield item, called


def _image(
    config: dict[str, Any],
    manifest: dict[str, Any],
    digest: Digest,
    origin: str,
    references: tuple[str, ...],
) -> InspectedImage:
    diff_ids = [Digest.parse(text) for text in config["rootfs"]["diff_ids"]]
    if len(diff_ids) != len(manifest["layers"]):
        raise IntegrityError("an image's configuration has other layers than its manifest", on=origin)
    steps = [
        str(step.get("created_by", "")) for step in config.get("history", ()) if not step.get("empty_layer")
    ]
    steps += [""] * (len(diff_ids) - len(steps))
    layers = []
    for diff_id, layer, step in zip(diff_ids, manifest["layers"], steps, strict=False):
        name, mount = step, ""
        if step.startswith(HISTORY):
            name, _, mount = step.removeprefix(HISTORY).rpartition(" at ")
        layers.append(
            InspectedLayer(
                name=" ".join(name.split())[:60],
                mount=mount,
                diff_id=diff_id,
                digest=Digest.parse(layer["digest"]),
                size=int(layer["size"]),
                compression=_compression(str(layer["mediaType"])),
            )
        )
    labels = (config.get("config") or {}).get("Labels") or {}  # both are optional
    variant = f"/{config['variant']}" if config.get("variant") else ""
    return InspectedImage(
        platform=f"{config['os']}/{config['architecture']}{variant}",
        config=Digest.parse(manifest["config"]["digest"]),
        manifest=digest,
        labels={str(key): str(value) for key, value in labels.items()},
        layers=tuple(layers),
        references=references,
    )


def _compression(media_type: str) -> str:
    for known in ("zstd", "gzip"):
        if media_type.endswith(("+" + known, "." + known)):
            return known
    return "none"
